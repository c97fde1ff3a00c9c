"""Where and how PyTorch runs: device, precision, versions. The one place that asks."""

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
    # Meant for debugging, and on with the line above: every new tensor would be filled with NaN.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def device_of(config):
    return torch.device("cuda" if config.run.device == "GPU" else "cpu")


def half_precision(device, precision):
    """`fp16`: products and convolutions inside in half, what needs the range in single."""
    return torch.autocast(device.type, torch.float16, enabled=precision == "fp16")


def loss_scale(precision):
    """Gradients below 6e-8 are zero in half precision: losses are scaled up, gradients down."""
    return 1024.0 if precision == "fp16" else 1.0


def versions():
    return {"framework": "torch", "torch": torch.__version__}
