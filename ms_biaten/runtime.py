"""Where and how MindSpore runs: device, precision, execution, versions. The one place that asks."""

import contextlib
import gc
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor, wait

os.environ.setdefault("GLOG_v", "3")  # MindSpore's own warnings, before its first import

import mindspore as ms
from mindspore import amp, nn
from mindspore._c_expression import MSContext

from ms_biaten import ranks
from ms_biaten.spec.config import DEVICES
from ms_biaten.spec.errors import UserError


def available_devices():
    """Asked of the context: the documented probes print warnings for every absent device."""
    context = MSContext.get_instance()
    return [device for device in DEVICES if context.is_pkg_support_device(device)]


_prepared = []  # MindSpore takes its device once in the life of a process


def prepare(config):
    """Called before any tensor is made: MindSpore fixes its device with the first kernel."""
    check_cache()
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
    gc.freeze()  # what is imported stays: MindSpore looks for garbage with every compilation
    ranks.start()
    _prepared.append(device)


def check_cache():
    """A graph from MindSpore 2.10's cache trains to NaN, and nothing says why."""
    if os.environ.get("MS_COMPILER_CACHE_ENABLE", "0") not in ("", "0"):
        raise UserError(
            "MS_COMPILER_CACHE_ENABLE is set, and runs from MindSpore's cache of compiled graphs "
            "end in NaN; unset it"
        )


class Graph(nn.Cell):
    """A function or cell, compiled as one graph with its first call.

    `long_kernels`: whether it has few of them, as a pass over the target has; see `call_behind`.
    """

    def __init__(self, function, long_kernels=False):
        super().__init__()
        self.function = called(function)
        self.call = call_behind if long_kernels and _prepared == ["CPU"] else call_here

    def construct(self, *inputs):
        return self.function(*inputs)

    def __call__(self, *inputs):
        return self.call(super().__call__, inputs)


def call_here(graph, inputs):
    # Not `ms.jit`: it has a queue of its own, whose thread spins on a core that kernels need.
    ms.set_context(mode=ms.GRAPH_MODE)
    try:
        return graph(*inputs)
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)


BEHIND = 10  # added to a thread's nice value
_caller: list[ThreadPoolExecutor] = []  # this process's; made with its first such graph
os.register_at_fork(after_in_child=_caller.clear)  # a fork has no thread but its own


def call_behind(graph, inputs):
    """By a thread of low priority: whoever calls a graph waits for its kernels in a loop.

    On a CPU there is a thread for every core beside it, and a kernel is done when the last of them
    is: the loop takes half a core from one, and a long product takes up to twice its time. Not for
    graphs of many short kernels: on a busy machine, starting them would take too long.
    """
    if not _caller:
        _caller.append(ThreadPoolExecutor(1, "graphs", give_way))
    done = _caller[0].submit(call_here, graph, inputs)
    try:
        return done.result()
    finally:
        wait([done])  # an interrupted caller must not go on beside a running graph


def give_way():
    if sys.platform != "linux":  # elsewhere, a thread has no priority of its own
        return
    thread = threading.get_native_id()
    with contextlib.suppress(OSError):  # a sandbox may refuse it; nothing depends on it
        os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + BEHIND)


def called(function):
    """By a function, also a cell: as an attribute of another, its parameters would be renamed."""

    def call(*inputs):
        return function(*inputs)

    return call


def compiled(function, config, long_kernels=False):
    """A function or cell as one graph, or as it is: `run.mode`."""
    return Graph(function, long_kernels) if config.run.mode == "graph" else function


def half_precision(cell, precision):
    """`fp16`: products and convolutions of the cell in half, what needs the range in single."""
    if precision == "fp16" and not getattr(cell, "_amp_level", ""):  # once is enough
        cell = amp.auto_mixed_precision(cell, "auto", ms.float16)
    return cell


def loss_scale(precision):
    """Gradients below 6e-8 are zero in half precision: losses are scaled up, gradients down."""
    return 1024.0 if precision == "fp16" else 1.0


def versions():
    return {"framework": "mindspore", "mindspore": ms.__version__}
