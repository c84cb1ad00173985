"""Sequence numbers of idempotent producers."""

import pytest

from pyklient.broker.api_errors import ApiError
from pyklient.broker.log.clean_shutdown import SequencedBatch
from pyklient.broker.log.producer_state import ProducerStates
from pyklient.error_codes import ErrorCode


def stored(batches: int, *, epoch: int = 0, capacity: int = 100) -> ProducerStates:
    """Return the state of a partition in which producer 7 has stored *batches* batches of ten records."""
    states = ProducerStates(capacity)
    for at in range(batches):
        states.add_batch(7, epoch, at * 10, 10, 1000 + at * 10, 5)
    return states


def test_the_next_sequence_is_taken() -> None:
    assert stored(3).check(7, 0, 30, 10) is None


def test_a_producer_unknown_to_the_partition_may_start_anywhere() -> None:
    assert ProducerStates(1).check(7, 3, 500, 10) is None


@pytest.mark.parametrize("back", range(1, 6))
def test_each_of_the_last_five_batches_is_recognised_when_it_comes_again(back: int) -> None:
    first = (8 - back) * 10
    assert stored(8).check(7, 0, first, 10) == SequencedBatch(first, first + 9, 1000 + first, 5)


@pytest.mark.parametrize(("first", "count"), [(20, 10), (90, 10), (70, 5), (81, 9), (0, 10)])
def test_anything_else_is_out_of_order(first: int, count: int) -> None:
    with pytest.raises(ApiError) as told:
        stored(8).check(7, 0, first, count)
    assert told.value.code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_an_older_epoch_is_fenced() -> None:
    with pytest.raises(ApiError) as told:
        stored(2, epoch=4).check(7, 3, 20, 10)
    assert told.value.code == ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_newer_epoch_starts_again_from_zero() -> None:
    states = stored(2)
    with pytest.raises(ApiError):
        states.check(7, 1, 20, 10)
    assert states.check(7, 1, 0, 10) is None
    states.add_batch(7, 1, 0, 10, 1020, 5)
    assert states.check(7, 1, 10, 10) is None
    with pytest.raises(ApiError):
        states.check(7, 0, 20, 10)


def test_sequences_wrap_at_two_to_the_31() -> None:
    states = ProducerStates(1)
    states.add_batch(7, 0, 2**31 - 5, 10, 0, 5)
    assert states.check(7, 0, 5, 10) is None
    assert states.check(7, 0, 2**31 - 5, 10) is not None


def test_the_producer_that_was_silent_longest_is_forgotten_first() -> None:
    states = ProducerStates(2)
    for producer in (1, 2, 1, 3):
        states.add_batch(producer, 0, 0, 1, 0, 0)
    assert len(states) == 2
    assert states.check(2, 0, 99, 1) is None
    with pytest.raises(ApiError):
        states.check(1, 0, 99, 1)
