"""The commands of `spec.commands`, run by MindSpore."""

import sys

from ms_biaten.spec import commands


def main(arguments=None):
    return commands.main("ms-biaten", "ms_biaten.backend", arguments)


if __name__ == "__main__":
    sys.exit(main())
