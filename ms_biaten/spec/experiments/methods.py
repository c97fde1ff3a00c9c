"""The rows that grids are made of: a title, its settings, and what it must beat."""

from __future__ import annotations

from ms_biaten.spec.console import METHOD_TITLES
from ms_biaten.spec.experiments.grid import Row


def _row(method: str, control: str = "") -> Row:
    return Row(METHOD_TITLES[method], (("method.name", method),), control)


BN_ONLY = _row("bn_only")
UNIFORM = _row("uniform")
ATEN = _row("aten", UNIFORM.title)
BI_ATEN = _row("bi_aten", UNIFORM.title)
CONTROLS = (BN_ONLY, UNIFORM, ATEN, BI_ATEN)

SHOT = _row("shot")


def _with_each_weights(method: str) -> tuple[Row, Row, Row]:
    """With its own weights, with 1/N, which shows what weighing gains, and with ATEN's."""
    title = METHOD_TITLES[method]
    native, uniform, aten = (
        (("method.name", method), ("method.weights", weights))
        for weights in ("native", "uniform", "aten")
    )
    even = f"{title}, uniform"
    return Row(title, native), Row(even, uniform, title), Row(f"{title} + ATEN", aten, even)


DECISION, CAIDA, DATE = (_with_each_weights(name) for name in ("decision", "caida", "date"))
PLUGGED = (*DECISION, *CAIDA, *DATE)


# Eq. (18) as the methods were published, backbones trained, too, against the same on features.
END_TO_END = (
    Row(DECISION[2].title, DECISION[2].settings),
    Row(
        f"{DECISION[2].title}, end to end",
        (*DECISION[2].settings, ("train.trainable", "backbone")),
        DECISION[2].title,
    ),
)


def _ablation(title: str, *settings: tuple[str, object], method: str = "bi_aten") -> Row:
    return Row(title, (("method.name", method), *settings), BI_ATEN.title)


FULL = Row(BI_ATEN.title, BI_ATEN.settings)
ABLATIONS = (  # Table 4 of the paper
    FULL,
    _ablation("w/o intra-domain weights (ATEN)", method="aten"),
    _ablation("w/o alternate training", ("profile.one_hot_epochs", "never")),
    _ablation("w/o L_intra", ("loss.intra", False)),
    _ablation("w/o L_IM", ("loss.im", False)),
)

# Figure 7 of the paper: its axes are not in the text. These hold the best values on DomainNet that
# the supplement gives: lambda 0.2 and 1, gamma 0.1 and 0.5.
LAMBDAS = (0.1, 0.2, 0.5, 1.0, 2.0)
GAMMAS = (0.05, 0.1, 0.2, 0.5, 1.0)


def swept(lambda_intra: float, gamma: float) -> Row:
    settings = (("loss.lambda_intra", lambda_intra), ("loss.gamma", gamma))
    return Row(f"Bi-ATEN, λ {lambda_intra:g}, γ {gamma:g}", (*BI_ATEN.settings, *settings))  # noqa: RUF001


SWEEP = tuple(swept(lambda_intra, gamma) for lambda_intra in LAMBDAS for gamma in GAMMAS)
