"""timm beside a CPU build of torch.

timm imports torchvision. A torchvision from the public index is built for CUDA; beside a CPU build
of torch its compiled operators do not load, and its import stops where it describes one of them.
Backbones and transforms need none of them, so declaring their names is enough.
"""

import importlib
import sys

from ms_biaten.spec.errors import UserError

SYMPTOM = "operator torchvision::nms does not exist"
SCHEMAS = tuple(
    f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor" for name in ("nms", "qnms")
)

declared = []  # the library, once declared: its names vanish with the last reference to it


def import_timm():
    """timm, by the plain import; the shim only where that fails with exactly this symptom."""
    try:
        return importlib.import_module("timm")
    except ModuleNotFoundError as error:
        raise UserError(
            f"{error.name} is not installed, and backbones need it: pip install 'ms_biaten[torch]'"
        ) from None
    except RuntimeError as error:
        if str(error) != SYMPTOM or declared:
            raise
    forget("torchvision", "timm")
    declare_operators()
    return importlib.import_module("timm")


def shim_used():
    return bool(declared)


def forget(*packages):
    """Half-imported modules would be taken for whole ones by the next import."""
    for name in list(sys.modules):
        if name.split(".")[0] in packages:
            del sys.modules[name]


def declare_operators():
    from torch.library import Library  # here: the plain path needs no torch of its own

    library = Library("torchvision", "DEF")
    for schema in SCHEMAS:
        library.define(schema)
    declared.append(library)
