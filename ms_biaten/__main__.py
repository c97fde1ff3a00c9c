"""`python -m ms_biaten train|params|...`"""

import sys

from ms_biaten.cli import main

sys.exit(main())
