import gc
import multiprocessing
import pickle
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import pytest

from pyklient.consumer.consumer_connector import ConsumerConnector
from pyklient.errors import (
    CommitError,
    ConfigurationError,
    ConsumerTimeout,
    ForkError,
    KafkaTimeoutError,
    MessageStreamsExistError,
    OffsetOutOfRangeError,
)
from pyklient.protocol.messages import FetchRequest, FetchResponse
from pyklient.serialization import decode_json, decode_text
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition
from tests.consumer.feed import Feed, own_threads, wait_for
from tests.consumer.stream.bench import until_quiet, values
from tests.servers.recording_proxy import RecordingProxy

QUICK: dict[str, Any] = {
    "auto_offset_reset": "earliest",
    "consumer_timeout_ms": 30_000,
    "fetch_max_wait_ms": 50,
}


def connect(feed: Feed, group: str | None = None, **options: Any) -> ConsumerConnector:
    return ConsumerConnector(feed.bootstrap_servers, group_id=group, **{**QUICK, **options})


def test_streams_are_made_by_topic_and_each_reads_a_share(feed: Feed) -> None:
    topic = feed.topic(4)
    for partition in range(4):
        feed.send(topic, [f"p{partition}"], partition)
    with connect(feed, feed.name()) as connector:
        streams = connector.create_message_streams({topic: 3}, value_decoder=decode_text)
        assert [type(stream).__name__ for stream in streams[topic]] == ["KafkaStream"] * 3
        shares = [
            {message.partition for message in until_quiet(stream, count)}
            for stream, count in zip(streams[topic], (2, 1, 1), strict=True)
        ]
    assert shares == [{0, 1}, {2}, {3}], "the range rule"


def test_more_streams_than_partitions_leave_some_waiting(feed: Feed) -> None:
    topic = feed.topic(1, "a")
    with connect(feed, feed.name()) as connector:
        first, second = connector.create_message_streams({topic: 2})[topic]
        assert values(until_quiet(first, 1)) == ["a"]
        assert until_quiet(second, 0) == []


@pytest.mark.parametrize(
    ("grouped", "allowed"), [*((True, at) for at in range(4)), *((False, at) for at in range(3))]
)
def test_where_a_thread_cannot_be_started_that_is_raised_and_all_is_closed(
    feed: Feed, monkeypatch: pytest.MonkeyPatch, grouped: bool, allowed: int
) -> None:
    topic, group, before = feed.topic(1, "a"), feed.name() if grouped else None, own_threads()
    start, left = threading.Thread.start, [None] * allowed

    def limited(thread: threading.Thread) -> None:
        if thread.name.startswith("pyklient"):
            if not left:
                raise RuntimeError("can't start new thread")
            left.pop()
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    with pytest.raises(RuntimeError, match="can't start new thread"), connect(feed, group) as connector:
        next(iter(connector.stream(topic)))
    wait_for(lambda: not own_threads() - before, "the end of all threads")


def test_streams_by_the_thousand_are_dealt_at_a_price_that_rises_with_their_number(feed: Feed) -> None:
    topic = feed.topic(1, "a")
    few, many = (min(_price_of_dealing(feed, topic, count) for _ in range(3)) for count in (1_000, 10_000))
    assert many < 40 * few, "a search through all of them for each is a hundred times as much"


def _price_of_dealing(feed: Feed, topic: str, count: int) -> float:
    """Return the CPU seconds that it takes to divide the partition of a topic among *count* streams, without
    collecting the garbage of other tests."""
    with connect(feed, feed.name()) as connector:
        streams = connector.create_message_streams({topic: count})[topic]
        handler, assignment = connector._lifecycle.handler, connector._ownership.assignment
        assert handler is not None
        assert assignment is not None
        gc.disable()
        try:
            began = time.thread_time()
            handler.assigned(assignment.partitions, assignment.identity)
            price = time.thread_time() - began
        finally:
            gc.enable()
        assert len(streams) == count
    return price


def test_one_stream_reads_several_topics(feed: Feed) -> None:
    clicks, views = feed.topic(2, "click"), feed.topic(1, "view")
    with connect(feed, feed.name()) as connector:
        stream = connector.stream(clicks, views)
        assert sorted(values(until_quiet(stream, 2))) == ["click", "view"]


def test_decoders_make_the_keys_and_values(feed: Feed) -> None:
    topic = feed.topic(1, '{"a": 1}')
    with connect(feed, feed.name()) as connector:
        stream = connector.stream(topic, key_decoder=decode_text, value_decoder=decode_json)
        (message,) = islice(stream, 1)
        assert (message.key, message.value) == (None, {"a": 1})


def test_streams_are_made_once(feed: Feed) -> None:
    topic = feed.topic()
    with connect(feed, feed.name()) as connector:
        connector.create_message_streams({topic: 1})
        with pytest.raises(MessageStreamsExistError):
            connector.create_message_streams({topic: 1})
        with pytest.raises(MessageStreamsExistError):
            connector.stream(topic)
        with pytest.raises(MessageStreamsExistError):
            connector.set_rebalance_listener(None)  # type: ignore[arg-type]  # refused before it is looked at


def test_no_topics_at_all_is_allowed_and_owns_nothing(feed: Feed) -> None:
    with connect(feed, feed.name()) as connector:
        assert connector.create_message_streams({}) == {}


@pytest.mark.parametrize("topics", [{"t": 0}, {"": 1}, {"t": 10_001}])
def test_nonsense_is_refused_before_anything_happens(feed: Feed, topics: dict[str, int]) -> None:
    with connect(feed, feed.name()) as connector:
        with pytest.raises(ConfigurationError):
            connector.create_message_streams(topics)
        with pytest.raises(ConfigurationError):
            connector.stream()


def test_reading_goes_on_where_the_last_commit_was(feed: Feed) -> None:
    topic, group = feed.topic(1, "a", "b", "c", "d"), feed.name()
    with connect(feed, group, enable_auto_commit=False) as connector:
        stream = connector.stream(topic)
        assert values(list(islice(stream, 2))) == ["a", "b"]
        connector.commit_offsets()
        assert values(list(islice(stream, 1))) == ["c"]
    assert feed.committed(group, topic) == [2]
    with connect(feed, group, enable_auto_commit=False) as connector:
        stream = connector.stream(topic)
        assert values(list(islice(stream, 1))) == ["c"]
        stream.commit_offsets()
    assert feed.committed(group, topic) == [3]


def test_a_stream_commits_its_own_partitions_only(feed: Feed) -> None:
    topic, group = feed.topic(2, "a"), feed.name()
    feed.send(topic, ["b"], partition=1)
    with connect(feed, group, enable_auto_commit=False) as connector:
        first, second = connector.create_message_streams({topic: 2})[topic]
        list(islice(first, 1)), list(islice(second, 1))
        second.commit_offsets()
        assert feed.committed(group, topic, 2) == [None, 1]


def test_given_offsets_are_committed_as_they_are(feed: Feed) -> None:
    topic, group = feed.topic(2, "a", "b", "c"), feed.name()
    with connect(feed, group, enable_auto_commit=False) as connector:
        stream = connector.stream(topic)
        list(islice(stream, 3))
        connector.commit_offsets(
            {TopicPartition(topic, 0): 1, TopicPartition(topic, 1): OffsetAndMetadata(7, "note")}
        )
        assert feed.committed(group, topic, 2) == [1, 7]
        with pytest.raises(
            ValueError, match=rf"offsets\[{topic}-0\]=-1 is out of range; choose a number from 0 to"
        ):
            connector.commit_offsets({TopicPartition(topic, 0): -1})


def test_what_is_not_ours_to_commit_says_why(feed: Feed) -> None:
    topic, other = feed.topic(2), feed.topic(1)
    with connect(feed, feed.name()) as connector:
        connector.stream(topic, "not-made-yet")
        wrong = [TopicPartition(topic, 9), TopicPartition("not-made-yet", 0), TopicPartition(other, 0)]
        with pytest.raises(CommitError) as caught:
            connector.commit_offsets(dict.fromkeys([TopicPartition(topic, 0), *wrong], 1))
        assert [str(caught.value.partitions[each]) for each in wrong] == [
            "there is no such partition: the topic has 2, numbered from 0",
            "there is no such topic",
            "this connector has no stream of that topic",
        ]


def test_leaving_the_block_cleanly_commits_what_was_handed_out(feed: Feed) -> None:
    topic, group = feed.topic(1, "a", "b", "c"), feed.name()
    with connect(feed, group) as connector:
        list(islice(connector.stream(topic), 2))
    assert feed.committed(group, topic) == [2]


def test_leaving_the_block_by_an_exception_does_not_commit_the_message_in_hand(feed: Feed) -> None:
    topic, group = feed.topic(1, "a", "b", "c"), feed.name()

    def work() -> None:
        with connect(feed, group) as connector:
            for message in connector.stream(topic):
                if message.value == b"b":
                    raise RuntimeError("cannot handle b")

    with pytest.raises(RuntimeError, match="cannot handle b"):
        work()
    assert feed.committed(group, topic) == [1]


def test_without_automatic_commit_nothing_is_committed_by_itself(feed: Feed) -> None:
    topic, group = feed.topic(1, "a"), feed.name()
    with connect(feed, group, enable_auto_commit=False) as connector:
        list(islice(connector.stream(topic), 1))
    assert feed.committed(group, topic) == [None]


def test_automatic_commits_follow_the_loop_and_leave_out_what_is_in_hand(feed: Feed) -> None:
    topic, group = feed.topic(1, "a", "b", "c"), feed.name()
    with connect(feed, group, auto_commit_interval_ms=20) as connector:
        loop = iter(connector.stream(topic))
        next(loop), next(loop)
        _until(lambda: feed.committed(group, topic) == [1])
        time.sleep(0.1)
        assert feed.committed(group, topic) == [1], "message 1 is in hand"
        next(loop)
        _until(lambda: feed.committed(group, topic) == [2])


def _until(condition: Any) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_new_groups_begin_where_auto_offset_reset_says(feed: Feed) -> None:
    topic = feed.topic(1, "old")
    with connect(feed, feed.name(), auto_offset_reset="latest") as connector:
        stream = connector.stream(topic)
        assert until_quiet(stream, 0) == []
        feed.send(topic, ["new"])
        assert values(list(islice(stream, 1))) == ["new"]
    with connect(feed, feed.name(), auto_offset_reset="none") as connector:
        stream = connector.stream(topic)
        with pytest.raises(OffsetOutOfRangeError, match="auto_offset_reset is none"):
            next(iter(stream))


@pytest.mark.parametrize(("reset", "found"), [("earliest", ["a", "b"]), ("latest", [])])
def test_a_committed_offset_beyond_the_log_is_reset(feed: Feed, reset: str, found: list[str]) -> None:
    topic, group = feed.topic(1, "a", "b"), feed.name()
    with connect(feed, group) as connector:
        connector.stream(topic)
        connector.commit_offsets({TopicPartition(topic, 0): 100})
    with connect(feed, group, auto_offset_reset=reset) as connector:
        assert values(until_quiet(connector.stream(topic), len(found))) == found


def test_an_offset_beyond_the_log_is_an_error_where_nothing_resets_it(feed: Feed) -> None:
    topic, group = feed.topic(1, "a"), feed.name()
    with connect(feed, group) as connector:
        connector.stream(topic)
        connector.commit_offsets({TopicPartition(topic, 0): 100})
    with connect(feed, group, auto_offset_reset="none") as connector:
        stream = connector.stream(topic)
        for _ in range(2):
            with pytest.raises(OffsetOutOfRangeError, match=f"{topic}-0 at offset 100"):
                next(iter(stream))


def test_without_a_group_everything_is_read_and_nothing_committed(feed: Feed) -> None:
    topic = feed.topic(2, "a")
    feed.send(topic, ["b"], partition=1)
    with connect(feed) as connector:
        stream = connector.stream(topic)
        assert sorted(values(until_quiet(stream, 2))) == ["a", "b"]
        with pytest.raises(ConfigurationError, match="set group_id"):
            connector.commit_offsets()
        with pytest.raises(ConfigurationError, match="set group_id"):
            stream.commit_offsets()


def test_without_a_group_new_partitions_and_topics_are_read_from_their_start(feed: Feed) -> None:
    topic, later = feed.topic(1, "a"), feed.name()
    options: dict[str, Any] = {
        "auto_offset_reset": "latest",
        "metadata_max_age_ms": 50,
    }
    with connect(feed, **options) as connector:
        loop = iter(connector.stream(topic, later))
        feed.grow(topic, 2)
        feed.send(topic, ["b"], partition=1)
        assert next(loop).value == b"b"
        feed.topic(1, "c", name=later)
        assert next(loop).value == b"c"


def test_a_commit_from_one_thread_leaves_out_what_another_has_in_hand(feed: Feed) -> None:
    topic, group = feed.topic(2, "a"), feed.name()
    feed.send(topic, ["b"], partition=1)
    got, go_on = threading.Event(), threading.Event()
    with connect(feed, group, enable_auto_commit=False) as connector:
        first, second = connector.create_message_streams({topic: 2})[topic]

        def work() -> None:
            for _ in islice(second, 1):
                got.set()
                go_on.wait(60)

        reader = threading.Thread(target=work)
        reader.start()
        assert got.wait(30)
        for _ in islice(first, 1):
            connector.commit_offsets()
        assert feed.committed(group, topic, 2) in ([1, None], [1, 0])
        go_on.set()
        reader.join(30)


def test_a_connector_cannot_be_pickled(feed: Feed) -> None:
    with connect(feed) as connector, pytest.raises(TypeError, match="Create it where it is used"):
        pickle.dumps(connector)


def test_a_loop_under_way_is_the_parents_after_a_fork(feed: Feed) -> None:
    topic = feed.topic(1, *"abc")
    with connect(feed, feed.name()) as connector:
        loop = iter(connector.stream(topic))
        assert next(loop).value == b"a"
        pipe, theirs = multiprocessing.Pipe()
        child = multiprocessing.get_context("fork").Process(target=_go_on, args=(loop, theirs))
        child.start()
        child.join(30)
        assert pipe.poll(30)
        assert pipe.recv() == "ForkError"
        pipe.close()
        theirs.close()
        assert values(list(islice(loop, 2))) == ["b", "c"]


def _go_on(loop: Iterator[Any], pipe: Any) -> None:
    try:
        pipe.send(next(loop).value)
    except ForkError as error:
        pipe.send(type(error).__name__)


def test_a_forked_child_gets_an_error_and_the_parent_goes_on(feed: Feed) -> None:
    topic = feed.topic(1, "a")
    with connect(feed, feed.name()) as connector:
        stream = connector.stream(topic)
        pipe, theirs = multiprocessing.Pipe()
        child = multiprocessing.get_context("fork").Process(
            target=_in_child, args=(connector, stream, theirs)
        )
        child.start()
        child.join(30)
        assert pipe.poll(30)
        assert pipe.recv() == ["ForkError"] * 4
        pipe.close()
        theirs.close()
        assert values(list(islice(stream, 1))) == ["a"]


def _in_child(connector: ConsumerConnector, stream: Any, pipe: Any) -> None:
    raised = []
    uses: list[Callable[[], object]] = [connector.commit_offsets, connector.metrics]
    uses += [lambda: next(iter(stream)), lambda: connector.stream("t")]
    for use in uses:
        try:
            use()
        except ForkError as error:
            raised.append(type(error).__name__)
    connector.close()
    pipe.send(raised)


@contextmanager
def nobody_listens() -> Iterator[str]:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{unused.getsockname()[1]}"


@pytest.mark.parametrize("group", ["g", None])
def test_an_unreachable_cluster_is_an_error_within_the_time_allowed(group: str | None) -> None:
    with nobody_listens() as address:
        began = time.monotonic()
        with (
            ConsumerConnector(address, group_id=group, default_api_timeout_ms=1000) as connector,
            pytest.raises(KafkaTimeoutError, match=f"refused by {address}"),
        ):
            connector.stream("t")
        assert time.monotonic() - began < 20


def test_a_topic_larger_than_one_fetch_comes_whole_and_in_order(feed: Feed) -> None:
    topic = feed.topic(2)
    for number in range(40):
        feed.send(topic, [f"{number}:{index}" for index in range(50)], partition=number % 2)
    options: dict[str, Any] = {"max_partition_fetch_bytes": 2000, "fetch_max_bytes": 3000}
    with connect(feed, feed.name(), prefetch_max_bytes=10_000, **options) as connector:
        messages = list(islice(connector.stream(topic), 2000))
    assert len(messages) == 2000
    for partition in range(2):
        mine = [message.offset for message in messages if message.partition == partition]
        assert mine == list(range(1000))


def test_a_message_larger_than_the_fetch_limit_still_comes(feed: Feed) -> None:
    topic = feed.topic(1)
    feed.send(topic, [b"x" * 100_000])
    with connect(feed, feed.name(), max_partition_fetch_bytes=100, fetch_max_bytes=100) as connector:
        (message,) = islice(connector.stream(topic), 1)
        assert len(message.value) == 100_000


def test_a_slow_stream_does_not_hold_up_the_others(feed: Feed) -> None:
    topic = feed.topic(2)
    for _ in range(20):
        feed.send(topic, [b"x" * 1000] * 10, partition=0)
        feed.send(topic, [b"y" * 1000] * 10, partition=1)
    options: dict[str, Any] = {"prefetch_max_bytes": 40_000, "max_partition_fetch_bytes": 10_500}
    with connect(feed, feed.name(), **options) as connector:
        _unread, busy = connector.create_message_streams({topic: 2})[topic]
        assert len(list(islice(busy, 200))) == 200


def test_a_stalled_stream_leaves_the_others_whole_answers(feed: Feed) -> None:
    """Streams that are read get whole responses, not one batch at a time, however many partitions the stalled
    stream has."""
    partitions, batches = 40, 24
    topic = feed.topic(partitions)
    for partition in range(partitions):
        for _ in range(batches):
            feed.send(topic, [bytes(1000)] * 16, partition=partition)
    with (
        RecordingProxy(feed.bootstrap_servers, FetchRequest) as proxy,
        ConsumerConnector(
            proxy.bootstrap_servers, group_id=feed.name(), prefetch_max_bytes=4 << 20, **QUICK
        ) as connector,
    ):
        stalled, busy = connector.create_message_streams({topic: 2})[topic]
        next(iter(stalled))

        def filled() -> list[bool]:
            answers = [exchange.response for exchange in proxy.exchanges]
            return [isinstance(answer, FetchResponse) and bool(answer.responses) for answer in answers]

        wait_for(lambda: filled()[-3:] == [False] * 3, "an end of what may be fetched ahead")
        before = sum(filled())
        total = partitions // 2 * batches * 16
        assert len(list(islice(busy, total))) == total
        assert sum(filled()) - before < 30, "8 MiB were read, a fetch brings up to 1 MiB"


def test_a_timeout_is_no_end(feed: Feed) -> None:
    topic = feed.topic(1)
    with connect(feed, feed.name(), consumer_timeout_ms=50) as connector:
        stream = connector.stream(topic)
        with pytest.raises(ConsumerTimeout):
            next(iter(stream))
        feed.send(topic, ["a"])
        assert values(next(stream.batches(max_records=1, timeout=30))) == ["a"]
