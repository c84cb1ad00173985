"""A rebalance listener that seeks, pauses and asks for positions while it is told what is assigned."""

import threading
from collections.abc import Callable, Collection
from itertools import islice
from typing import Any

import pytest

from pyklient.consumer.consumer_connector import ConsumerConnector
from pyklient.consumer.fetch.fetcher import Fetcher
from pyklient.consumer.fetch.fetcher_handover import FetchedPartition
from pyklient.consumer.group.rebalance_listener import ConsumerRebalanceListener
from pyklient.consumer.kafka_stream import KafkaStream
from pyklient.errors import ClosedError, KafkaTimeoutError, OffsetOutOfRangeError, PartitionNotAssignedError
from pyklient.kernel import Message
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition
from tests.consumer.feed import Feed, wait_for
from tests.consumer.group.test_groups import Listener, held
from tests.consumer.group.test_groups import connect as connect_to_group
from tests.consumer.stream.bench import until_quiet, until_raised, values
from tests.consumer.test_consumer_connector import connect as connect_alone

__all__ = ["OnAssignment"]

LETTERS = "abcdefgh"
SHORT: dict[str, Any] = {"consumer_timeout_ms": 300}


class OnAssignment(ConsumerRebalanceListener):
    """A rebalance listener that calls *control* with the stream of each assigned partition. It records what
    *control* raises."""

    def __init__(
        self, connector: ConsumerConnector, control: Callable[[KafkaStream, TopicPartition], object]
    ) -> None:
        self.connector = connector
        self.control = control
        self.errors: list[Exception] = []
        self.assigned: list[TopicPartition] = []
        connector.set_rebalance_listener(self)

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        for each in partitions:
            try:
                self.control(self.connector.stream_of(each), each)
            except Exception as error:
                self.errors.append(error)
        self.assigned += partitions


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[TopicPartition, int | None]]:
    """The partitions that fetchers got, with the offsets at which they begin."""
    found: list[tuple[TopicPartition, int | None]] = []
    assign = Fetcher.assign

    def recording(fetcher: Fetcher, state: FetchedPartition) -> None:
        found.append((state.cursor.partition, state.cursor.position))
        assign(fetcher, state)

    monkeypatch.setattr(Fetcher, "assign", recording)
    return found


def connect(feed: Feed, kind: str, group: str, **options: Any) -> ConsumerConnector:
    if kind in ("range", "cooperative-sticky"):
        return connect_to_group(feed, group, **{"partition_assignment_strategy": kind, **options})
    return connect_alone(feed, group if kind == "assign with a group" else None, **options)


def begin(connector: ConsumerConnector, kind: str, topic: str) -> KafkaStream:
    """Return the stream of all partitions of *topic*, which has two."""
    return connector.assign({topic: [0, 1]}) if kind.startswith("assign") else connector.stream(topic)


def by_message(stream: KafkaStream) -> list[Message]:
    return until_raised(stream)


def by_batch(stream: KafkaStream) -> list[Message]:
    return [each for some in until_raised(stream.batches(timeout=None)) for each in some]


def by_column(stream: KafkaStream) -> list[Any]:
    batches = until_raised(stream.arrow_batches(timeout=None))
    return [Row(value) for some in batches for value in some.column("value").to_pylist()]


def read_all(read: Callable[[KafkaStream], list[Any]], stream: KafkaStream, count: int) -> list[str]:
    """Return the values of *count* messages or more, sorted. On a busy machine, no message may come within
    the time-out of a loop."""
    seen: list[Any] = []

    def has_all() -> bool:
        seen.extend(read(stream))
        return len(seen) >= count

    wait_for(has_all, f"{count} messages")
    return sorted(values(seen))


class Row:
    """A record of an Arrow batch."""

    def __init__(self, value: bytes) -> None:
        self.value = value


@pytest.mark.parametrize(
    ("kind", "read"),
    [
        ("range", by_message),
        ("range", by_batch),
        ("range", by_column),
        ("cooperative-sticky", by_message),
        ("assign with a group", by_message),
        ("assign", by_message),
        ("no group", by_message),
    ],
)
@pytest.mark.parametrize("reset", ["earliest", "latest", "none"])
def test_a_listener_seeks_before_anything_is_fetched(
    feed: Feed,
    fetched: list[Any],
    kind: str,
    read: Callable[[KafkaStream], list[Any]],
    reset: str,
) -> None:
    topic, group = feed.topic(2, *LETTERS), feed.name()
    feed.send(topic, ["x", "y"], partition=1)
    kept = {TopicPartition(topic, 0): 3, TopicPartition(topic, 1): "beginning"}
    positions = {}

    def control(stream: KafkaStream, partition: TopicPartition) -> None:
        stream.seek(partition, 1)
        stream.seek(partition, kept[partition])  # type: ignore[arg-type]  # offsets and texts
        positions[partition] = stream.position(partition)
        assert fetched == []

    with connect(feed, kind, group, auto_offset_reset=reset, **SHORT) as connector:
        listener = OnAssignment(connector, control)
        stream = begin(connector, kind, topic)
        assert listener.errors == []
        assert connector.stream_of(TopicPartition(topic, 0)) is stream
        assert read_all(read, stream, 7) == [*"defgh", "x", "y"]
    assert positions == {TopicPartition(topic, 0): 3, TopicPartition(topic, 1): 0}
    assert sorted(fetched) == sorted(positions.items()), "each partition was fetched from there, and once"


@pytest.mark.parametrize("kind", ["range", "cooperative-sticky"])
def test_a_listener_seeks_in_what_a_running_loop_gets_from_another_member(feed: Feed, kind: str) -> None:
    topic, group = feed.topic(2, *LETTERS), feed.name()
    feed.send(topic, LETTERS, partition=1)
    seen: list[int] = []

    def read(stream: KafkaStream, partition: int) -> None:
        for message in stream:
            if message.partition == partition:
                seen.append(message.offset)
                if message.offset == 7:
                    break

    with connect(feed, kind, group, client_id="a", auto_offset_reset="none") as connector:
        listener = OnAssignment(connector, lambda stream, partition: stream.seek(partition, 5))
        other = connect(feed, kind, group, client_id="b", auto_offset_reset="none")
        OnAssignment(other, lambda stream, partition: stream.seek(partition, 7))
        stream = connector.stream(topic)
        with other:
            theirs = other.stream(topic)
            wait_for(lambda: len(held(connector)) == len(held(other)) == 1, "the rebalance")
            (taken,) = held(other)
            assert [each.offset for each in islice(theirs, 1)] == [7]
            loop = threading.Thread(target=read, args=(stream, taken))
            loop.start()
        loop.join(30)
        assert (listener.errors, seen) == ([], [5, 6, 7])


def test_a_listener_pauses_what_is_not_handed_out_before_it_is_resumed(feed: Feed) -> None:
    topic, group = feed.topic(2, "a"), feed.name()
    feed.send(topic, ["b"], partition=1)
    first = TopicPartition(topic, 0)
    with connect_to_group(feed, group, **SHORT) as connector:
        listener = OnAssignment(connector, lambda stream, each: stream.pause(each) if each == first else None)
        stream = connector.stream(topic)
        assert (listener.errors, stream.paused()) == ([], [first])
        assert values(until_quiet(stream, 1)) == ["b"]
        stream.resume(first)
        assert values(until_quiet(stream, 1)) == ["a"]


def test_a_listener_learns_positions_committed_offsets_and_lags(feed: Feed, fetched: list[Any]) -> None:
    topic, group = feed.topic(2, *LETTERS), feed.name()
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    told: list[Any] = []

    def control(stream: KafkaStream, partition: TopicPartition) -> None:
        told.append((stream.position(partition), stream.committed(partition), stream.lag()))
        assert fetched == []

    with connect_to_group(feed, group, auto_offset_reset="latest", **SHORT) as connector:
        connector.set_rebalance_listener(ConsumerRebalanceListener())
        connector.stream(topic)
        connector.commit_offsets({zero: 2})
    fetched.clear()
    with connect_to_group(feed, group, auto_offset_reset="latest", **SHORT) as connector:
        feed.send(topic, ["x", "y"], partition=1)
        listener = OnAssignment(connector, control)
        stream = connector.stream(topic)
        assert listener.errors == []
        lag = {zero: len(LETTERS) - 2, one: told[1][2][one]}
        assert told[0] == (2, OffsetAndMetadata(2), lag)
        assert told[1][0] + lag[one] == 2, "its position and its lag make the end"
        left = [*LETTERS[2:], *["x", "y"][told[1][0] :]]
        assert sorted(values(until_quiet(stream, len(left)))) == left


def test_a_position_that_a_listener_learns_is_where_reading_begins(feed: Feed) -> None:
    partition = TopicPartition(feed.topic(1, *LETTERS), 0)
    positions: list[int] = []

    def control(stream: KafkaStream, partition: TopicPartition) -> None:
        positions.append(stream.position(partition))
        feed.send(partition.topic, ["later"])

    with connect_to_group(feed, feed.name(), auto_offset_reset="latest") as connector:
        listener = OnAssignment(connector, control)
        stream = connector.stream(partition.topic)
        assert (listener.errors, positions) == ([], [len(LETTERS)])
        assert next(iter(stream)).value == b"later"


def test_without_a_position_to_begin_at_a_listener_and_then_the_loop_get_the_error(feed: Feed) -> None:
    partition = TopicPartition(feed.topic(1, "a"), 0)
    with connect_to_group(feed, feed.name(), auto_offset_reset="none") as connector:
        listener = OnAssignment(connector, lambda stream, each: stream.position(each))
        stream = connector.stream(partition.topic)
        assert [type(each) for each in listener.errors] == [OffsetOutOfRangeError]
        with pytest.raises(OffsetOutOfRangeError, match=f"{partition} has no committed offset"):
            next(iter(stream))


def test_a_listener_that_raises_after_it_has_moved_a_partition_has_moved_it(
    feed: Feed, caplog: pytest.LogCaptureFixture
) -> None:
    class Raising(OnAssignment):
        def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
            super().on_partitions_assigned(partitions)
            raise ValueError("the database does not answer")

    topic = feed.topic(1, *LETTERS)
    with connect_to_group(feed, feed.name()) as connector:
        Raising(connector, lambda stream, partition: stream.seek(partition, 6))
        assert values(list(islice(connector.stream(topic), 2))) == ["g", "h"]
    assert "the database does not answer" in caplog.text


def test_a_listener_of_scalas_consumer_may_seek_too(feed: Feed) -> None:
    topic = feed.topic(1, *LETTERS)

    class Seeking(Listener):
        def before_starting_fetchers(self, consumer_id: str, assignment: dict[str, dict[int, str]]) -> None:
            super().before_starting_fetchers(consumer_id, assignment)
            partition = TopicPartition(topic, 0)
            connector.stream_of(partition).seek(partition, 6)

    with connect_to_group(feed, feed.name()) as connector:
        connector.set_rebalance_listener(Seeking())
        assert values(list(islice(connector.stream(topic), 2))) == ["g", "h"]


def test_a_member_whose_listener_moves_partitions_for_longer_than_the_session_stays(
    feed: Feed, fetched: list[Any]
) -> None:
    topic, group = feed.topic(1, *LETTERS), feed.name()
    with connect_to_group(feed, group, session_timeout_ms=2_000) as connector:

        def control(stream: KafkaStream, partition: TopicPartition) -> None:
            stream.seek(partition, 6)
            before = feed.members(group)
            threading.Event().wait(4.5)  # more than two sessions
            assert (feed.members(group), fetched) == (before, [])

        listener = OnAssignment(connector, control)
        assert values(list(islice(connector.stream(topic), 2))) == ["g", "h"]
        assert listener.errors == []


def test_where_a_listener_has_moved_a_partition_is_committed(feed: Feed) -> None:
    topic, group = feed.topic(1, *LETTERS), feed.name()
    with connect_to_group(feed, group) as connector:
        connector.stream(topic)
        connector.commit_offsets({TopicPartition(topic, 0): 7})
    with connect_to_group(feed, group) as connector:
        OnAssignment(connector, lambda stream, partition: stream.seek(partition, 4))
        connector.stream(topic)
    assert feed.committed(group, topic) == [4]


def test_a_connector_names_the_stream_of_each_partition_that_it_reads(feed: Feed) -> None:
    topic, group = feed.topic(2), feed.name()
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    with connect_to_group(feed, group) as connector:
        with pytest.raises(
            PartitionNotAssignedError, match=f"no stream of this ConsumerConnector reads {zero}"
        ):
            connector.stream_of(zero)
        streams = connector.create_message_streams({topic: 2})[topic]
        assert [connector.stream_of(each) for each in (zero, one)] == streams
        with pytest.raises(PartitionNotAssignedError):
            connector.stream_of(TopicPartition(topic, 2))
    with pytest.raises(ClosedError):
        connector.stream_of(zero)
    with connect_to_group(feed, group) as connector:
        connector.parallel(topic, print)
        with pytest.raises(PartitionNotAssignedError):
            connector.stream_of(zero)


def test_a_position_that_cannot_be_looked_up_in_time_is_a_time_out(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = feed.topic(1, "a")
    with connect_to_group(feed, feed.name()) as connector:
        listener = OnAssignment(connector, lambda stream, each: stream.position(each, timeout=0))
        assert next(iter(connector.stream(topic))).value == b"a"
        assert [type(each) for each in listener.errors] == [KafkaTimeoutError]


def test_a_connector_whose_handlers_run_in_parallel_says_that_it_has_no_streams(feed: Feed) -> None:
    topic = feed.topic(1, "a")
    with connect_to_group(feed, feed.name()) as connector:

        def handle(_: Message) -> None:
            connector.stream_of(TopicPartition(topic, 0))

        with pytest.raises(
            PartitionNotAssignedError, match=r"in parallel, and parallel\(\) makes no streams"
        ):
            connector.parallel(topic, handle).run()
