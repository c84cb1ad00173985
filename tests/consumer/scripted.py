"""Plays a dialogue over a list of responses, without sockets, threads and waiting."""

from collections.abc import Iterable
from typing import Any, TypeVar

from pyklient.net.dialogue import Ask, Dialogue, Pause, Step
from pyklient.protocol.schema import ApiMessage

__all__ = ["names", "play"]

T = TypeVar("T")


def play(dialogue: Dialogue[T], answers: Iterable[Any]) -> tuple[T, list[Any]]:
    """Return the result and the requests of *dialogue*. An exception in *answers* is raised inside the
    dialogue."""
    left = list(answers)
    asked: list[Any] = []
    try:
        step: Step = next(dialogue)
        while True:
            if isinstance(step, Pause):
                step = dialogue.send(None)
                continue
            if isinstance(step, Ask):
                asked.append(step.request)
            assert left, f"nothing left to answer {step} with"
            answer = left.pop(0)
            step = dialogue.throw(answer) if isinstance(answer, Exception) else dialogue.send(answer)
    except StopIteration as end:
        assert not left, f"never asked for: {left}"
        result: T = end.value
        return result, asked


def names(asked: list[ApiMessage]) -> list[str]:
    """Return the names of the requests."""
    return [type(request).__name__ for request in asked]
