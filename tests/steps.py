"""Counts the steps that code takes, so that a test can show how its cost grows without measuring time."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["steps_of"]


def steps_of(call: Callable[[], object]) -> int:
    """Return the number of steps that *call* takes in this thread: one for each instruction of Python code
    that runs. A function in C is one step, however much it does."""
    steps = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal steps
        frame.f_trace_lines = False
        frame.f_trace_opcodes = True
        steps += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return steps
