"""Where MindSpore runs: device, execution, versions. The one place that asks."""

import os

os.environ.setdefault("GLOG_v", "3")  # MindSpore's own warnings, before its first import

import mindspore as ms
from mindspore._c_expression import MSContext

from ms_biaten.spec.errors import UserError

DEVICES = ("CPU", "GPU", "Ascend")


def available_devices():
    """Asked of the context: the documented probes print warnings for every absent device."""
    context = MSContext.get_instance()
    return [device for device in DEVICES if context.is_pkg_support_device(device)]


_prepared = []  # MindSpore takes its device once in the life of a process


def prepare(config):
    """Called before any tensor is made: MindSpore fixes its device with the first kernel."""
    device = config.run.device
    if device in _prepared:
        return
    if device not in available_devices():
        raise UserError(
            f"device '{device}' is not there; MindSpore here has: {', '.join(available_devices())}"
        )
    ms.set_device(device)
    if device == "CPU":
        if config.run.cpu_threads:
            ms.device_context.cpu.op_tuning.threads_num(config.run.cpu_threads)
        ms.runtime.launch_blocking()  # small kernels: queueing them costs more than running them
    _prepared.append(device)


def versions():
    return {"framework": "mindspore", "mindspore": ms.__version__}
