"""A block of memory for responses and columns is never used twice at the same time."""

from array import array
from typing import Any

import pytest

from tests.run.seed import dice


@pytest.mark.parametrize("size", [0, 1, 64, 16 << 10, 100_000, 5 << 20])
def test_it_has_the_size_asked_for_and_can_be_written_to(kernel: Any, size: int) -> None:
    view = kernel.memory(size)
    assert (len(view), view.readonly, view.format) == (size, False, "B")
    view[:] = b"x" * size
    assert bytes(view) == b"x" * size


def test_what_is_in_use_is_not_handed_out_again(kernel: Any) -> None:
    chance = dice("memory")
    held: list[tuple[memoryview, int]] = []
    for number in range(2000):
        size = chance.choice((10, 20_000, 30_000, 100_000, 1 << 20))
        view = kernel.memory(size)
        view[0] = view[size - 1] = number % 251
        # a slice alone keeps it too, as the pieces of a response do
        held.append((view[size // 2 :] if number % 2 else view, number % 251))
        if len(held) > 40:
            del held[chance.randrange(len(held))]
        assert all(each[-1] == mark for each, mark in held)


_EDGE = (2**63 - 1) // 1000


@pytest.mark.parametrize("start", [0, 2])
def test_milliseconds_turn_into_microseconds_where_they_fit(kernel: Any, start: int) -> None:
    numbers = array("q", [-1, 0, 1_700_000_000_123, _EDGE, -_EDGE])
    converted = kernel.microseconds(memoryview(numbers), start, 5)
    assert converted.format == "q"
    assert converted.tolist() == [number * 1000 for number in numbers[start:]]
    assert kernel.microseconds(memoryview(numbers), 3, 3).tolist() == []


@pytest.mark.parametrize("number", [_EDGE + 1, -_EDGE - 1, 2**63 - 1, -(2**63)])
def test_milliseconds_that_do_not_fit_are_left_to_the_caller(kernel: Any, number: int) -> None:
    column = memoryview(array("q", [1, number, 2]))
    assert kernel.microseconds(column, 0, 3) is None
    assert kernel.microseconds(column, 2, 3).tolist() == [2_000]


@pytest.mark.parametrize(("start", "stop"), [(-1, 1), (0, 4), (2, 1)])
def test_rows_that_are_not_there_are_an_error(kernel: Any, start: int, stop: int) -> None:
    with pytest.raises(IndexError):
        kernel.microseconds(memoryview(array("q", [1, 2, 3])), start, stop)


@pytest.mark.parametrize("size", [1 << 62, (1 << 62) + 1, (1 << 63) - 1])
def test_more_than_there_is_is_an_error(kernel: Any, size: int) -> None:
    with pytest.raises(MemoryError):
        kernel.memory(size)


def test_less_than_nothing_is_an_error(kernel: Any) -> None:
    with pytest.raises(ValueError, match="negative"):
        kernel.memory(-1)
