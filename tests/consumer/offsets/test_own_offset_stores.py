"""Offset stores that a user has written: what their methods must return, and what happens if they do not."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from pyklient import ConfigurationError, ConsumerConnector, KafkaError
from pyklient.offset_stores import SQLiteOffsetStore, StoredPosition
from pyklient.topic_partition import TopicPartition
from tests.consumer.feed import Feed, wait_for
from tests.consumer.offsets.results import NUMBERS, Results, connect, read_some

_Starts = Mapping[TopicPartition, int | None]


class OwnStore:
    """An offset store in memory that returns *acquired* of the partitions to acquire, and *saved*."""

    def __init__(self, acquired: Callable[[_Starts], Any], saved: Any) -> None:
        self._acquired = acquired
        self._saved = saved

    def acquire(self, group_id: str, starts: _Starts) -> Any:
        return self._acquired(starts)

    def save(self, transaction: Any, group_id: str, changes: Any) -> Any:
        return self._saved


def at_zero(starts: _Starts) -> Any:
    return {each: StoredPosition(0, 1) for each in starts}


@pytest.mark.parametrize(
    "acquired",
    [
        lambda starts: None,
        lambda starts: {},
        lambda starts: dict.fromkeys(starts, 0),
        lambda starts: dict.fromkeys(starts, StoredPosition(-1, 1)),
        lambda starts: dict.fromkeys(starts, ("0", 1)),
        lambda starts: dict.fromkeys(starts, StoredPosition(None, 1)),
    ],
    ids=["None", "no partitions", "no tuple", "negative", "text", "without the offset that was given"],
)
def test_a_store_must_return_the_position_of_each_partition(
    feed: Feed, acquired: Callable[[_Starts], Any]
) -> None:
    with (
        connect(feed, OwnStore(acquired, [])) as connector,
        pytest.raises(ConfigurationError, match=r"acquire\(\) of the offset store returned"),
    ):
        connector.stream(feed.topic(1, *NUMBERS))


def test_a_store_that_does_not_say_which_partitions_it_has_changed_saves_nothing(feed: Feed) -> None:
    with connect(feed, OwnStore(at_zero, None)) as connector:
        stream = connector.stream(feed.topic(1, *NUMBERS))
        for _ in range(2):
            read_some(stream, 2)
            with pytest.raises(ConfigurationError, match=r"save\(\) of the offset store returned None"):
                stream.save_offsets(None)


def test_a_pair_of_an_offset_and_an_epoch_is_a_position(feed: Feed) -> None:
    store = OwnStore(lambda starts: dict.fromkeys(starts, (4, 1)), [])
    with connect(feed, store) as connector:
        stream = connector.stream(feed.topic(1, *NUMBERS))
        assert [each.offset for each in read_some(stream, 2)] == [4, 5]
        stream.save_offsets(None)


def test_a_class_is_no_store() -> None:
    store: Any = SQLiteOffsetStore
    with pytest.raises(ConfigurationError, match="offset_store is the class SQLiteOffsetStore, but must be"):
        ConsumerConnector(group_id="g", offset_store=store)


@pytest.mark.parametrize(
    ("raised", "expected", "message"),
    [
        (TimeoutError("the database did not answer"), TimeoutError, "the database did not answer"),
        (SystemExit(3), KafkaError, r"acquire\(\) of the offset store raised SystemExit\(3\)"),
    ],
    ids=["time-out", "exit"],
)
def test_what_a_store_raises_is_raised_by_the_call_that_makes_the_stream(
    feed: Feed, raised: BaseException, expected: type[BaseException], message: str
) -> None:
    def acquired(starts: _Starts) -> Any:
        raise raised

    with connect(feed, OwnStore(acquired, [])) as connector, pytest.raises(expected, match=message):
        connector.stream(feed.topic(1, *NUMBERS))


def test_a_member_that_its_store_has_stopped_leaves_the_group(feed: Feed, results: Results) -> None:
    class BrokenError(Exception):
        pass

    def broken(starts: _Starts) -> Any:
        raise BrokenError("the disk is full")

    with connect(feed, OwnStore(broken, [])) as connector:
        with pytest.raises(BrokenError):
            connector.stream(feed.topic(1, *NUMBERS))
        wait_for(lambda: feed.members("g") == [], "the end of the membership")
