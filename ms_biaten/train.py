"""`python ms_biaten/train.py` is `ms-biaten train`."""

import sys
from pathlib import Path

# Run as a file, Python puts this folder first; the packages live one level up.
sys.path[0] = str(Path(__file__).resolve().parents[1])

from ms_biaten.cli import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(["train", *sys.argv[1:]]))
