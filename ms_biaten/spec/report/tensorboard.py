"""A run's results as scalars that TensorBoard reads."""

from __future__ import annotations

from pathlib import Path

from ms_biaten.spec.errors import UserError
from ms_biaten.spec.history import read_history


def write_scalars(run: Path) -> Path:
    """Every number of every epoch, in RUN/tensorboard; an earlier copy is replaced."""
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        raise UserError(
            "--tensorboard: needs tensorboardX; pip install 'ms_biaten[tensorboard]'"
        ) from None
    history = read_history(run)
    folder = run / "tensorboard"
    for old in folder.glob("events.out.tfevents.*"):
        old.unlink()
    with SummaryWriter(str(folder)) as writer:
        for line in filter(None, (history.start, *history.epochs)):
            for name, value in line.items():
                if type(value) in (int, float) and name != "epoch":
                    writer.add_scalar(name, value, line["epoch"])
    return folder
