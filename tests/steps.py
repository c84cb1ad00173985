"""Counts the steps that code takes, so that a test can show how its cost grows without measuring time."""

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

__all__ = ["each_step", "steps_of"]


def steps_of(call: Callable[[], object]) -> int:
    """Return the number of steps that *call* takes in this thread: one for each instruction of Python code
    that runs. A function in C is one step, however much it does. No garbage is collected meanwhile, because
    this may run Python code, such as the functions in ``gc.callbacks``."""
    steps, thread = 0, threading.get_ident()

    def count() -> None:
        nonlocal steps
        if threading.get_ident() == thread:
            steps += 1

    was_enabled = gc.isenabled()
    gc.disable()
    try:
        with each_step(count):
            call()
    finally:
        if was_enabled:
            gc.enable()
    return steps


# Python 3.12 and 3.13.0 leave out the first calls when a function of sys.settrace asks for instructions.
if sys.version_info >= (3, 12):

    @contextmanager
    def each_step(count: Callable[[], object], folder: str = "") -> Iterator[None]:
        """Call *count* for each instruction of the code below *folder*, in this thread and in threads that
        start meanwhile. A thread may also count that has started before."""
        monitoring = sys.monitoring
        tool, instruction = monitoring.PROFILER_ID, monitoring.events.INSTRUCTION

        def saw(code: CodeType, _: int) -> None:
            if code.co_filename.startswith(folder):
                count()

        monitoring.use_tool_id(tool, "pyklient-steps")
        try:
            monitoring.register_callback(tool, instruction, saw)
            monitoring.set_events(tool, instruction)
            yield
        finally:
            monitoring.set_events(tool, monitoring.events.NO_EVENTS)
            monitoring.register_callback(tool, instruction, None)
            monitoring.free_tool_id(tool)

else:

    @contextmanager
    def each_step(count: Callable[[], object], folder: str = "") -> Iterator[None]:
        """Call *count* for each instruction of the code below *folder*, in this thread and in threads that
        start meanwhile. A thread may also count that has started before."""

        def trace(frame: FrameType, event: str, argument: Any) -> Any:
            if not frame.f_code.co_filename.startswith(folder):
                return None
            frame.f_trace_lines = False
            frame.f_trace_opcodes = True
            if event == "opcode":
                count()
            return trace

        before = sys.gettrace()
        threading.settrace(trace)
        sys.settrace(trace)
        try:
            yield
        finally:
            sys.settrace(before)
            threading.settrace(before)
