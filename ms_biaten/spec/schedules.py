"""What changes during a run, as pure functions of the step or the epoch (both counted from 0)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from ms_biaten.spec.config import Config, Train


def cosine(train: Train, step: int, steps_per_epoch: int) -> float:
    """Supplement, Implementation Details: cosine decay as in Swin, with optional linear warm-up."""
    warmup = train.warmup_epochs * steps_per_epoch
    if step < warmup:
        return train.lr * (step + 1) / warmup
    done = (step - warmup) / max(1, train.epochs * steps_per_epoch - warmup)
    return train.lr_min + (train.lr - train.lr_min) * 0.5 * (1 + math.cos(math.pi * done))


def inverse_power(train: Train, step: int, steps_per_epoch: int) -> float:
    """The released code: lr (1 + 0.001 t)^-0.75, whatever the length of the run."""
    return train.lr * (1 + 0.001 * step) ** -0.75


def inverse_progress(train: Train, step: int, steps_per_epoch: int) -> float:
    """The SHOT family: lr (1 + 10 t/T)^-0.75, t counted from 1 to the last of T steps."""
    return train.lr * (1 + 10 * (step + 1) / (train.epochs * steps_per_epoch)) ** -0.75


LR_SCHEDULE = {
    "cosine": cosine,
    "inverse_power": inverse_power,
    "inverse_progress": inverse_progress,
}

ONE_HOT_EPOCHS: dict[str, Callable[[int, int], bool]] = {
    "every_d_alter": lambda epoch, d_alter: (epoch + 1) % d_alter == 0,
    "odd_and_first": lambda epoch, d_alter: epoch == 0 or epoch % 2 == 1,
    "never": lambda epoch, d_alter: False,
}

CE_WEIGHT: dict[str, Callable[[float], float]] = {
    "gamma": lambda gamma: gamma,
    "gamma_squared": lambda gamma: gamma * gamma,
}


def learning_rate(config: Config, step: int, steps_per_epoch: int) -> float:
    return LR_SCHEDULE[config.profile.lr_schedule](config.train, step, steps_per_epoch)


def is_one_hot(config: Config, epoch: int) -> bool | None:
    """Algorithm 1: does alpha stay one-hot in this epoch? None where there is no alpha to learn."""
    if config.method.name != "bi_aten":
        return True if config.method.name == "aten" else None
    return ONE_HOT_EPOCHS[config.profile.one_hot_epochs](epoch, config.train.d_alter)


def loss_coefficients(config: Config) -> tuple[float, float, float]:
    """Coefficients of CE and IM in Eq. (15) and of L_intra in Eq. (16)."""
    loss = config.loss
    return (
        CE_WEIGHT[config.profile.ce_weight](loss.gamma),
        float(loss.im),
        loss.lambda_intra * loss.intra,
    )


def batch_starts(samples: int, batch_size: int) -> list[int]:
    """Where the batches of an epoch begin; a last batch of one sample has no batch statistics."""
    return [start for start in range(0, samples, batch_size) if samples - start > 1]


def epoch_batches(seed: int, epoch: int, samples: int, batch_size: int) -> Iterator[np.ndarray]:
    """The rows of each batch: seeded by (seed, epoch), so a resumed run needs no stored state."""
    order = np.random.default_rng([seed, epoch]).permutation(samples)
    for start in batch_starts(samples, batch_size):
        yield order[start : start + batch_size]
