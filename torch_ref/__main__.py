"""`python -m torch_ref train|params|...`"""

import sys

from torch_ref.cli import main

sys.exit(main())
