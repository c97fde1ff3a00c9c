"""Commands of `ms-biaten`, one after the other; then this worker's weights, beside each run.

python worker_run.py "train ... --output RUN" "train ..."
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
    for command in sys.argv[1:]:
        arguments = shlex.split(command)
        code = main(arguments)
        if code:
            sys.exit(code)
        place = arguments[arguments.index("--output") + 1]
        weights = {n: t.asnumpy() for n, t in engines[-1].weights().items()}
        np.savez(f"{place}.weights{os.environ.get('RANK_ID', '')}.npz", **weights)
