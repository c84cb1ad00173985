"""The garbage collector runs less often while rows are sent, and as before afterwards."""

import gc
from collections.abc import Iterator

import pytest

from pyklient.spark.sink.rows import rare_collections


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def collections_of_ten_thousand_rows() -> int:
    before = _collections()
    rows = [[number] for number in range(10_000)]
    assert len(rows) == 10_000
    return _collections() - before


def _collections() -> int:
    return sum(int(generation["collections"]) for generation in gc.get_stats())


def test_rows_are_not_gone_through_again_and_again() -> None:
    gc.set_threshold(700, 10, 10)
    assert collections_of_ten_thousand_rows() >= 10
    with rare_collections():
        assert collections_of_ten_thousand_rows() <= 1
    assert gc.get_threshold() == (700, 10, 10)


def test_the_last_of_several_puts_it_back() -> None:
    gc.set_threshold(700, 10, 10)
    with rare_collections():
        with pytest.raises(ValueError, match="a task failed"), rare_collections():
            raise ValueError("a task failed")
        assert gc.get_threshold()[0] > 700
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("threshold", [0, 1_000_000])
def test_one_that_is_off_or_even_rarer_stays_so(threshold: int) -> None:
    gc.set_threshold(threshold, 10, 10)
    with rare_collections():
        assert gc.get_threshold() == (threshold, 10, 10)
    assert gc.get_threshold() == (threshold, 10, 10)
