"""The lease of a stream, and the iterator that asks it before each message."""

import math
import time
from typing import Any

import pytest


def test_a_lease_ends_at_its_time_on_the_clock_of_monotonic(kernel: Any) -> None:
    assert not kernel.Lease().ended(), "a lease has no end at first"
    now = time.monotonic()
    assert not kernel.Lease(now + 60).ended()
    assert kernel.Lease(now - 0.1).ended(), "the clock of the kernel is at most some milliseconds late"


def test_an_iterator_stops_when_its_lease_ends_and_continues_where_it_stopped(kernel: Any) -> None:
    lease = kernel.Lease()
    messages = kernel.LeasedIterator([1, 2, 3], lease)
    loop = iter(messages)
    assert next(loop) == 1
    lease.until = 0
    assert list(loop) == []
    assert list(messages) == []
    lease.until = math.inf
    assert list(messages) == [2, 3]
    assert list(messages) == []


def test_the_exception_of_an_iterator_goes_on(kernel: Any) -> None:
    def failing() -> Any:
        yield 1
        raise ValueError("no more")

    messages = iter(kernel.LeasedIterator(failing(), kernel.Lease()))
    assert next(messages) == 1
    with pytest.raises(ValueError, match="no more"):
        next(messages)
