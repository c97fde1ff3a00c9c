"""How MindSpore's graphs are called: passes over the target by a thread that gives way."""

import os
import sys
import threading

import pytest

from ms_biaten import runtime


def test_a_pass_is_called_by_one_thread_of_low_priority():
    def seen(x, y):
        thread = threading.get_native_id()
        return x + y, thread, os.getpriority(os.PRIO_PROCESS, thread)

    results = [runtime.call_behind(seen, (2, 3)) for _ in range(2)]
    assert results[0] == results[1]
    total, thread, nice = results[0]
    own = threading.get_native_id()
    assert total == 5 and thread != own
    if sys.platform == "linux":
        assert nice == min(19, os.getpriority(os.PRIO_PROCESS, own) + runtime.BEHIND)


def test_what_a_pass_raises_reaches_its_caller():
    def fails():
        raise ValueError("by name")

    with pytest.raises(ValueError, match="by name"):
        runtime.call_behind(fails, ())
