"""Commands of `ms-biaten`, one after the other; each worker leaves its weights beside the run.

python worker_run.py "train ... --output RUN" "train --resume RUN" ...
"""

import os
import shlex
import sys
from pathlib import Path

import numpy as np

sys.path[0] = str(Path(__file__).resolve().parents[1])

from ms_biaten import backend  # noqa: E402
from ms_biaten.cli import main  # noqa: E402

engines = []
make_engine = backend.make_engine


def remembered(*arguments):
    engines.append(make_engine(*arguments))
    return engines[-1]


backend.make_engine = remembered

if __name__ == "__main__":
    worker = os.environ["RANK_ID"] if os.environ.get("MS_ROLE") == "MS_WORKER" else "s"
    Path(f"{worker}.pid").write_text(str(os.getpid()))  # s: alone, or the scheduler
    for command in sys.argv[1:]:
        arguments = shlex.split(command)
        code = main(arguments)
        if code:
            sys.exit(code)
        if arguments[0] != "train":
            continue
        option = "--output" if "--output" in arguments else "--resume"
        place = Path(arguments[arguments.index(option) + 1])
        weights = {name: tensor.asnumpy() for name, tensor in engines[-1].weights().items()}
        np.savez(place.with_suffix(f".{worker}.npz"), **weights)
