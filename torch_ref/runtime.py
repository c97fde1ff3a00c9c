"""Where PyTorch runs: device, threads, versions."""

import torch

from ms_biaten.spec.errors import UserError


def available_devices():
    return ["CPU", "GPU"] if torch.cuda.is_available() else ["CPU"]


def prepare(config):
    """Called once, before any tensor is made."""
    if config.run.device not in available_devices():
        raise UserError(
            f"device '{config.run.device}' is not there; PyTorch here has: "
            f"{', '.join(available_devices())}"
        )
    torch.use_deterministic_algorithms(True, warn_only=True)


def versions():
    return {"framework": "torch", "torch": torch.__version__}
