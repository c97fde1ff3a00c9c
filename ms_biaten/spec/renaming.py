"""From the names of other projects to timm's and to those of docs/bank.md.

Every function takes {name: array} and returns a new one; none needs torch. What is left out is
told through `say`, so that nothing vanishes silently.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

from ms_biaten.spec.errors import UserError
from ms_biaten.spec.weights import Arrays

Say = Callable[[str], None]
Place = str | Path
T = TypeVar("T")

# Both follow from the window and the image size; models compute them when they are built.
RECOMPUTED = ("relative_position_index", "attn_mask")
POSITION = "patch_embed.absolute_pos_embed"  # where the models keep it

# torch.nn.utils.parametrizations.weight_norm -> torch.nn.utils.weight_norm
WEIGHT_NORM = {
    "fc.parametrizations.weight.original0": "fc.weight_g",
    "fc.parametrizations.weight.original1": "fc.weight_v",
}


def to_timm(arrays: Arrays, expected: Iterable[str], width: int, where: Place, say: Say) -> Arrays:
    """A backbone in any known naming -> timm's; `expected` are the names of the model's tensors."""
    expected = set(expected)
    arrays = without_counters(arrays)
    arrays = take_prefix(arrays, "module.", where, say)  # of data-parallel training
    arrays = take_prefix(arrays, "backbone.", where, say)  # PMTrans: the rest is its own heads
    if any(k.startswith("layers.1.downsample.") for k in expected):
        arrays = swin_to_timm(arrays, where)
    if "_conv_stem.weight" in arrays:
        arrays = efficientnet_to_timm(arrays, expected, where)
    arrays = {k: a for k, a in arrays.items() if k in expected or not k.endswith(RECOMPUTED)}
    check_position(arrays, expected, where)
    return without_linear(arrays, expected, width, where, say)


def without_counters(arrays: Mapping[str, T]) -> dict[str, T]:
    """Batch normalisation counts its batches; with a momentum nothing reads the count."""
    return {k: a for k, a in arrays.items() if not k.endswith("num_batches_tracked")}


def take_prefix(arrays: Arrays, prefix: str, where: Place, say: Say) -> Arrays:
    """The tensors under a prefix, without it; all as they are where none has it."""
    inside = {k[len(prefix) :]: a for k, a in arrays.items() if k.startswith(prefix)}
    if not inside:
        return arrays
    outside = sorted({k.split(".")[0] for k in arrays if not k.startswith(prefix)})
    if outside:
        say(f"{where}: took {prefix}*, left out {', '.join(outside)}")
    return inside


def swin_to_timm(arrays: Arrays, where: Place) -> Arrays:
    """Microsoft's layout, also timm's before 0.9: a stage ends with its downsampling.

    In timm's today the next stage begins with it, so that stage 0 has none: the mark of the old.
    """
    old = any(k.startswith("layers.0.downsample.") for k in arrays)

    def rename(name: str) -> str:
        match name.split("."):
            case ["absolute_pos_embed"]:
                return POSITION
            case ["layers", stage, "downsample", *rest] if old and stage.isdecimal():
                return ".".join(["layers", str(int(stage) + 1), "downsample", *rest])
        return name

    return renamed(arrays, rename, where)


# Inside a block of EfficientNet: with an expansion first, or, in the first stage, without one.
EXPANDED = {"_expand_conv": "conv_pw", "_bn0": "bn1", "_depthwise_conv": "conv_dw", "_bn1": "bn2"}
EXPANDED |= {"_project_conv": "conv_pwl", "_bn2": "bn3"}
PLAIN = {"_depthwise_conv": "conv_dw", "_bn1": "bn1", "_project_conv": "conv_pw", "_bn2": "bn2"}
AROUND = {"_conv_stem": "conv_stem", "_bn0": "bn1", "_conv_head": "conv_head", "_bn1": "bn2"}
AROUND |= {"_fc": "classifier"}


def efficientnet_to_timm(arrays: Arrays, expected: Iterable[str], where: Place) -> Arrays:
    """The efficientnet-pytorch packages number blocks throughout, timm within each stage."""
    places = {tuple(k.split(".")[1:3]) for k in expected if k.startswith("blocks.")}
    order = sorted((int(stage), int(index)) for stage, index in places)
    expanded = {k.split(".")[1] for k in arrays if k.endswith("_expand_conv.weight")}

    def rename(name: str) -> str:
        first, *rest = name.split(".")
        if first != "_blocks" or len(rest) < 2 or not rest[0].isdigit():
            return ".".join([AROUND.get(first, first), *rest])
        number, part, *tail = rest
        if int(number) >= len(order):
            return name  # a deeper model: an unexpected key to the strict check
        stage, index = order[int(number)]
        table = EXPANDED if number in expanded else PLAIN
        return ".".join(["blocks", str(stage), str(index), table.get(part, part), *tail])

    return renamed(arrays, rename, where)


def renamed(arrays: Arrays, rename: Callable[[str], str], where: Place) -> Arrays:
    """The same arrays under new names; two that fall together are an error."""
    result = {}
    for name, array in arrays.items():
        if rename(name) in result:
            raise UserError(
                f"{where}: holds {rename(name)} twice, once as {name}; keep one of them"
            )
        result[rename(name)] = array
    return result


def check_position(arrays: Arrays, expected: Container[str], where: Place) -> None:
    """The released code adds a random embedding where the file has none: never here."""
    if POSITION in arrays and POSITION not in expected:
        raise UserError(
            f"{where}: holds absolute_pos_embed, and the model has none, so its features would "
            "differ from what was trained; build the model with absolute_position=True"
        )
    if POSITION in expected and POSITION not in arrays:
        raise UserError(
            f"{where}: has no absolute_pos_embed, and the model was built with one, which would "
            "stay untrained; build the model with absolute_position=False"
        )


# Linear layers on top of the feature: classifiers, and a leftover of the released code.
ON_TOP = ("head.fc", "head", "fc", "classifier", "hidden")


def without_linear(
    arrays: Arrays, expected: Container[str], width: int, where: Place, say: Say
) -> Arrays:
    """Without a classifier: a weight (K, width) and a bias (K,) that the model has no place for.

    Anything else under such a name stays, and is an unexpected key to the strict check.
    """
    for top in ON_TOP:
        named = {k for k in arrays if k.startswith(f"{top}.") and k not in expected}
        if named != {f"{top}.weight", f"{top}.bias"}:
            continue
        weight, bias = (arrays[f"{top}.{part}"] for part in ("weight", "bias"))
        if weight.ndim == 2 and weight.shape[1] == width and bias.shape == weight.shape[:1]:
            say(f"{where}: left out {top}.*, a linear layer with {len(bias)} outputs on top")
            arrays = {k: a for k, a in arrays.items() if k not in named}
    return arrays


def to_heads(arrays: Arrays, where: Place, say: Say) -> Arrays:
    """Bottleneck or classifier of the SHOT family -> the names of docs/bank.md."""
    arrays = take_prefix(without_counters(arrays), "module.", where, say)
    return renamed(arrays, lambda name: WEIGHT_NORM.get(name, name), where)
