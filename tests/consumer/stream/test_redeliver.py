"""``redeliver``: the message or batch in hand is handed out again before all others, and is not committed."""

import threading
from itertools import islice
from typing import Any

import pytest

from pyklient.consumer.stream.stream_core import StreamCore
from pyklient.errors import ConsumerTimeout, StreamInUseError
from pyklient.protocol.records import Compression
from pyklient.serialization import decode_json
from pyklient.topic_partition import TopicPartition
from tests.consumer.feed import Feed, wait_for
from tests.consumer.group.test_groups import connect, held
from tests.consumer.group.test_rebalances import Holder
from tests.consumer.stream.bench import Bench, batch, marker, until_raised, values


class HandlerFailed(Exception):
    """The exception that the handlers of these tests raise."""


def fail_at(stream: Any, value: bytes) -> list[Any]:
    """Return the messages that a loop hands out until its handler fails at *value*."""
    seen: list[Any] = []

    def run() -> None:
        for message in stream:
            seen.append(message.value.decode())
            if message.value == value:
                raise HandlerFailed

    with pytest.raises(HandlerFailed):
        run()
    return seen


def filled(**facts: Any) -> Bench:
    bench = Bench(timeout=0)
    bench.put(batch("a", "b", "c", **facts), batch("d", "e", base=3, **facts), then=5)
    bench.put(batch("x", "y", **facts), partition=1, then=2)
    return bench


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.GZIP])
@pytest.mark.parametrize("at", "abcdexy")
def test_a_message_whose_handler_failed_comes_first_in_the_next_loop(at: str, codec: Compression) -> None:
    bench = filled(compression=codec)
    texts = [*"abcdexyz"]
    assert fail_at(bench.stream, at.encode()) == texts[: texts.index(at) + 1]
    bench.stream.redeliver()
    bench.put(batch("z", base=2), partition=1, start=2, then=3)
    assert until_raised_values(bench.stream) == texts[texts.index(at) :]
    assert bench.restarted == [], "nothing is fetched again"


def test_a_message_in_the_middle_of_a_large_batch_comes_again() -> None:
    bench = Bench(timeout=0)
    texts = [str(number) for number in range(5_000)]
    bench.put(batch(*texts), then=5_000)
    assert fail_at(bench.stream, b"4321") == texts[:4322]
    bench.stream.redeliver()
    assert until_raised_values(bench.stream) == texts[4321:]


def until_raised_values(stream: StreamCore) -> list[Any]:
    return values(until_raised(stream))


def test_without_it_the_next_loop_goes_on_behind_the_message() -> None:
    bench = filled()
    assert fail_at(bench.stream, b"b") == ["a", "b"]
    assert until_raised_values(bench.stream) == ["c", "d", "e", "x", "y"]


def test_the_loop_under_way_gets_the_message_again_too() -> None:
    bench = filled()
    seen: list[Any] = []
    for message in islice(bench.stream, 5):
        seen += values([message])
        if seen[-2:] == ["a", "b"]:
            bench.stream.redeliver()
    assert seen == ["a", "b", "b", "c", "d"]


def test_a_message_comes_again_as_often_as_asked_for() -> None:
    bench = filled()
    loop = iter(bench.stream)
    assert values(list(islice(loop, 4))) == ["a", "b", "c", "d"]
    for _ in range(3):
        bench.stream.redeliver()
        bench.stream.redeliver()  # nothing is in hand any more
        assert values([next(loop)]) == ["d"]
    assert until_raised_values(bench.stream) == ["e", "x", "y"]


@pytest.mark.parametrize("most", [2, 4, 6, 7])
def test_a_whole_batch_comes_again_over_several_partitions(most: int) -> None:
    bench = filled()
    batches = bench.stream.batches(max_records=most, timeout=0)
    first = next(batches)
    assert values(first) == [*"abcdexy"][:most]
    bench.stream.redeliver()
    assert bench.committable(in_hand=True) == dict.fromkeys({each.partition for each in first}, 0)
    assert next(bench.stream.batches(max_records=most, timeout=0)) == first
    second = next(batches := bench.stream.batches(max_records=most, timeout=0))
    bench.stream.redeliver()
    rest = [*"abcdexy"][most : 2 * most]
    assert values(second) == rest
    assert values(next(batches)) == rest


def test_a_batch_comes_again_to_another_kind_of_loop() -> None:
    bench = filled()
    next(bench.stream.batches(max_records=6, timeout=0))
    bench.stream.redeliver()
    assert values(list(islice(bench.stream, 2))) == ["a", "b"]
    bench.stream.redeliver()
    columns: Any
    (columns,) = islice(bench.stream.arrow_batches(max_records=2, timeout=0), 1)
    assert columns["value"].to_pylist() == [b"b", b"c"]
    bench.stream.redeliver()
    assert until_raised_values(bench.stream) == ["b", "c", "d", "e", "x", "y"]


def test_an_arrow_batch_comes_again() -> None:
    bench = filled()
    batches: Any = bench.stream.arrow_batches(max_records=4, timeout=0)
    first = next(batches)
    assert first["offset"].to_pylist() == [0, 1, 2, 3]
    bench.stream.redeliver()
    assert bench.committable(in_hand=True) == {0: 0}
    again: Any = bench.stream.arrow_batches(max_records=4, timeout=0)
    assert next(again).equals(first)
    assert [next(again)["offset"].to_pylist() for _ in range(2)] == [[4], [0, 1]]


def test_a_message_that_no_decoder_can_read_comes_again() -> None:
    broken = [True]

    def decode(value: bytes | None) -> Any:
        if value == b"2" and broken[0]:
            raise HandlerFailed
        return decode_json(value)

    bench = Bench(timeout=0, value_decoder=decode)
    bench.put(batch("1", "2", "3"), then=3)
    seen: list[Any] = []
    for _ in range(3):
        seen += values(until_raised(bench.stream, HandlerFailed))
        bench.stream.redeliver()
        assert bench.committable(in_hand=True) == {0: 1}
    broken.clear()
    broken.append(False)
    assert seen == [1]
    assert until_raised_values(bench.stream) == [2, 3]


def test_a_message_that_no_decoder_can_read_comes_again_if_its_partition_was_paused() -> None:
    broken = {b"b"}

    def decode(value: bytes | None) -> bytes | None:
        if value in broken:
            raise HandlerFailed
        return value

    bench = Bench(timeout=0, value_decoder=decode)
    bench.put(batch("a"), batch("b", base=1), batch("c", base=2), then=3)
    assert values(until_raised(bench.stream, HandlerFailed)) == ["a"]
    bench.stream.pause([TopicPartition("t", 0)])
    bench.stream.redeliver()
    broken.clear()
    bench.stream.resume([TopicPartition("t", 0)])
    assert until_raised_values(bench.stream) == ["b", "c"]
    assert bench.committable(in_hand=False) == {0: 3}


def test_a_batch_in_front_of_a_message_that_no_decoder_can_read_comes_again_before_it() -> None:
    bench = Bench(timeout=0, value_decoder=decode_json)
    bench.put(batch("1"), batch("2", "no JSON", base=1), then=3)
    batches = bench.stream.batches(timeout=0)
    assert values(next(batches)) == [1, 2]
    bench.stream.redeliver()
    assert values(next(batches)) == [1, 2]
    with pytest.raises(ValueError, match="Expecting value"):
        next(batches)


def test_nothing_happens_while_nothing_is_in_hand() -> None:
    bench = Bench(timeout=0)
    bench.stream.redeliver()
    bench.put(marker(0, 1), batch("a", base=1), then=2)
    assert until_raised_values(bench.stream) == ["a"]
    bench.stream.redeliver()  # ConsumerTimeout has come: the loop had asked for the next message
    with pytest.raises(ConsumerTimeout):
        next(iter(bench.stream))
    assert bench.committable(in_hand=False) == {0: 2}


def test_what_is_queued_counts_as_fetched_and_not_taken() -> None:
    bench = filled()
    waiting = [cursor.waiting_bytes for cursor in bench.cursors]
    next(bench.stream.batches(max_records=7, timeout=0))
    assert [cursor.waiting_bytes for cursor in bench.cursors] == [0, 0]
    bench.stream.redeliver()
    assert [cursor.waiting_bytes for cursor in bench.cursors] == waiting


def test_what_comes_again_does_not_keep_the_response_that_it_came_with() -> None:
    bench = Bench(timeout=0)
    # More than one chunk, so that the first message is in hand while much has not been decoded.
    texts = [str(number) for number in range(10_000)]
    fetched = bench.put(batch(*texts), batch(*texts, base=10_000), then=20_000)
    loop = iter(bench.stream)
    assert next(loop).offset == 0
    assert fetched.size, "there is more of it"
    bench.stream.redeliver()
    assert [message.offset for message in islice(loop, 20_000)] == list(range(20_000))
    assert fetched.size == 0, "a fetcher lets go of a response when its parts have been read"


def test_a_message_of_a_partition_that_was_taken_away_is_left_to_its_new_owner() -> None:
    bench = filled()
    loop = iter(bench.stream)
    assert values(list(islice(loop, 2))) == ["a", "b"]
    bench.deactivate()
    bench.stream.revoke()
    bench.stream.redeliver()
    assert bench.committable(in_hand=True) == {0: 1}
    bench.assign(generation=2)
    bench.put(batch("x", "y"), partition=1, then=2)
    assert values(list(islice(loop, 2))) == ["x", "y"]


def test_only_the_thread_of_the_loop_may_ask_for_it() -> None:
    bench = filled()
    got, go_on = threading.Event(), threading.Event()

    def work() -> None:
        for _ in bench.stream:
            got.set()
            assert go_on.wait(30)
            return

    reader = threading.Thread(target=work)
    reader.start()
    assert got.wait(30)
    with pytest.raises(StreamInUseError, match="is being read by thread"):
        bench.stream.redeliver()
    go_on.set()
    reader.join(30)
    bench.stream.redeliver()
    assert values([next(iter(bench.stream))]) == ["a"]


def test_any_thread_may_ask_for_it_between_steps_of_batches() -> None:
    bench = filled()
    batches = bench.stream.batches(max_records=2, timeout=0)
    taken: list[Any] = []
    done = threading.Event()

    def step() -> None:
        taken.append(next(batches))
        assert done.wait(30)

    worker = threading.Thread(target=step)
    worker.start()
    wait_for(lambda: taken, "the first batch")
    bench.stream.redeliver()
    assert next(batches) == taken[0]
    done.set()
    worker.join(5)


def test_commits_do_not_cover_it_until_it_has_been_handed_out_again(feed: Feed) -> None:
    topic, group = feed.topic(2, "a", "b", "c"), feed.name()
    with connect(feed, group, enable_auto_commit=False) as connector:
        stream = connector.stream(topic)
        assert fail_at(stream, b"b") == ["a", "b"]
        stream.redeliver()
        stream.commit_offsets()
        assert feed.committed(group, topic) == [1]
        assert values(list(islice(stream, 2))) == ["b", "c"]
        connector.commit_offsets()
        assert feed.committed(group, topic) == [3]


def test_automatic_commits_leave_it_out_also_when_the_connector_closes(feed: Feed) -> None:
    topic, group = feed.topic(1, "a", "b"), feed.name()
    with connect(feed, group) as connector:
        stream = connector.stream(topic)
        assert fail_at(stream, b"b") == ["a", "b"]
        stream.redeliver()
    assert feed.committed(group, topic) == [1]
    with connect(feed, group) as connector:
        assert values([next(iter(connector.stream(topic)))]) == ["b"]


def test_a_commit_that_covered_it_is_taken_back_by_the_next(feed: Feed) -> None:
    topic, group = feed.topic(1, "a", "b"), feed.name()
    with connect(feed, group, enable_auto_commit=False) as connector:
        stream = connector.stream(topic)
        assert values(list(islice(stream, 2))) == ["a", "b"]
        stream.commit_offsets()
        stream.redeliver()
        assert feed.committed(group, topic) == [2]
        stream.commit_offsets()
        assert feed.committed(group, topic) == [1]
        assert values([next(iter(stream))]) == ["b"]
        stream.commit_offsets()
        assert feed.committed(group, topic) == [2]


def test_a_message_comes_again_from_the_committed_offset_after_a_rebalance(feed: Feed) -> None:
    topic, group = feed.topic(2, "a", "b"), feed.name()
    with connect(feed, group, client_id="a", enable_auto_commit=False) as connector:
        stream = connector.stream(topic)
        loop = iter(stream)
        assert next(loop).value == b"a"
        stream.commit_offsets()
        assert next(loop).value == b"b"
        del loop
        with connect(feed, group, client_id="b") as other:
            other.stream(topic)
            wait_for(lambda: held(connector) == {0}, "the rebalance")
            stream.redeliver()
            stream.commit_offsets()
            assert feed.committed(group, topic) == [1]
            assert next(iter(stream)).value == b"b"


def test_another_thread_is_refused_by_a_connectors_stream(feed: Feed) -> None:
    topic = feed.topic(1, "a")
    with connect(feed, feed.name(), consumer_timeout_ms=-1) as connector:
        stream = connector.stream(topic)
        holder = Holder(stream)
        with pytest.raises(StreamInUseError):
            stream.redeliver()
        holder.go_on.set()
    holder.join()
