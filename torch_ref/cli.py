"""The commands of `spec.commands`, run by PyTorch."""

import sys

from ms_biaten.spec import commands


def main(arguments=None):
    return commands.main("python -m torch_ref", "torch_ref.backend", arguments)


if __name__ == "__main__":
    sys.exit(main())
