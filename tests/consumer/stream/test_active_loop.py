"""One loop over a stream at a time, in one thread at a time."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

import pytest

from pyklient.consumer.consumer_connector import ConsumerConnector
from pyklient.consumer.kafka_stream import KafkaStream
from pyklient.errors import KafkaError, StreamInUseError
from tests.consumer.feed import Feed
from tests.consumer.stream.bench import Bench, batch, values

pytestmark = pytest.mark.both_kernels


def loaded(*texts: str, **options: Any) -> Bench:
    bench = Bench(timeout=options.pop("timeout", 0.01), **options)
    bench.put(batch(*texts), then=len(texts))
    return bench


def elsewhere(work: Callable[[], Any]) -> Any:
    """Return the result of *work*, or raise its exception, after running it in a separate thread that has
    ended."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(work())
        except KafkaError as error:
            found.append(error)

    thread = threading.Thread(target=run, name="elsewhere")
    thread.start()
    thread.join(30)
    return found[0]


def test_a_second_thread_is_refused_and_changes_nothing() -> None:
    bench = loaded("a", "b", "c")
    loop = iter(bench.stream)
    assert next(loop).offset == 0
    for attempt in (lambda: next(iter(bench.stream)), lambda: next(bench.stream.batches())):
        error = elsewhere(attempt)
        assert isinstance(error, StreamInUseError)
        assert "'MainThread'" in str(error)
        assert "create_message_streams" in str(error)
        assert bench.committable(in_hand=False) == {0: 0}, "what is in hand here is not done with"
    assert [message.offset for message in islice(loop, 2)] == [1, 2]


def test_a_thread_that_waits_for_a_message_is_not_joined_by_another() -> None:
    bench = Bench(timeout=None)
    waiter = threading.Thread(target=lambda: list(bench.stream), name="waiter")
    waiter.start()
    while not bench.stream.wanted:
        time.sleep(0.001)
    with pytest.raises(StreamInUseError, match="'waiter'"):
        next(iter(bench.stream))
    bench.stream.end()
    waiter.join(30)
    assert not waiter.is_alive()
    assert list(bench.stream) == [], "the loop has ended: the stream is free, and at its end"


def test_one_iterator_in_two_threads_is_refused_too() -> None:
    bench = loaded("a")
    loop = bench.stream.chunks()
    assert next(loop).hand_out(1)
    assert isinstance(elsewhere(lambda: next(loop)), StreamInUseError)
    assert bench.committable(in_hand=False) == {0: 0}


def test_batches_may_be_asked_for_by_one_thread_after_the_other() -> None:
    bench = loaded("a", "b", "c")
    batches = bench.stream.batches(max_records=1, timeout=0.01)
    assert values(next(batches)) == ["a"]
    assert values(elsewhere(lambda: next(batches))) == ["b"]
    assert values(next(batches)) == ["c"]


def test_batches_are_not_asked_for_by_two_threads_at_once() -> None:
    bench = Bench()
    batches = bench.stream.batches(timeout=30)
    waiter = threading.Thread(target=lambda: next(batches), name="waiter")
    waiter.start()
    while not bench.stream.wanted:
        time.sleep(0.001)
    with pytest.raises(StreamInUseError, match="'waiter'"):
        next(batches)
    bench.put(batch("a"), then=1)
    waiter.join(30)
    assert not waiter.is_alive(), "the refusal left the other's step alone"


@pytest.mark.parametrize("end", ["break", "close", "drop", "raise", "end of thread"])
def test_a_stream_is_handed_over_when_its_loop_has_ended(end: str) -> None:
    bench = loaded("a", "b")

    def one() -> Any:
        if end == "break":
            for message in bench.stream:
                return message.offset
        if end == "close":
            batches = bench.stream.batches(max_records=1)
            first = next(batches)[0].offset
            batches.close()
            kept.append(batches)
            return first
        if end == "drop":
            return next(iter(bench.stream)).offset
        if end == "raise":
            return fail_inside(bench.stream)
        kept.append(iter(bench.stream))
        return next(kept[-1]).offset

    kept: list[Any] = []
    if end == "end of thread":
        assert elsewhere(one) == 0
        assert values(list(islice(bench.stream, 1))) == ["b"]
    else:
        assert one() == 0
        assert values(elsewhere(lambda: list(islice(bench.stream, 1)))) == ["b"]


def fail_inside(stream: Iterable[Any]) -> int:
    try:
        for message in stream:
            assert message.offset / 0
    except ZeroDivisionError:
        return 0
    return -1


def test_one_thread_may_begin_a_loop_while_another_of_its_own_stands_open() -> None:
    bench = loaded("a", "b", "c")
    first, second = bench.stream.chunks(), bench.stream.batches(max_records=1)
    assert values(next(first).hand_out(1)) == ["a"]
    assert values(next(second)) == ["b"]
    assert values(next(first).hand_out(1)) == ["c"]
    assert isinstance(elsewhere(lambda: next(second)), StreamInUseError)


def test_a_loop_that_was_closed_or_has_raised_is_over() -> None:
    bench = loaded("a", "b")
    batches = bench.stream.batches(max_records=1)
    next(batches)
    batches.close()
    assert list(batches) == []
    assert values(list(islice(bench.stream, 1))) == ["b"]


def test_two_threads_at_one_stream_lose_and_double_nothing(feed: Feed) -> None:
    """The loop that comes second gets an error. The other loop reads everything, and only what was handed out
    is committed."""
    topic, group, total = feed.topic(2), feed.name(), 20_000
    for partition in range(2):
        feed.send(topic, [str(number) for number in range(total // 2)], partition)
    seen: list[Counter[tuple[int, int]]] = [Counter(), Counter()]
    refused: list[StreamInUseError] = []

    def work(stream: KafkaStream, mine: Counter[tuple[int, int]]) -> None:
        deadline = time.monotonic() + 30
        try:
            for batch in stream.batches(max_records=100, timeout=1):
                if not batch and (mine.total() >= total or time.monotonic() > deadline):
                    return
                mine.update((message.partition, message.offset) for message in batch)
        except StreamInUseError as error:
            refused.append(error)

    options: dict[str, Any] = {"auto_offset_reset": "earliest", "auto_commit_interval_ms": 5}
    with ConsumerConnector(feed.bootstrap_servers, group_id=group, **options) as connector:
        stream = connector.stream(topic)
        threads = [threading.Thread(target=work, args=(stream, mine)) for mine in seen]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert len(refused) == 1
    together = seen[0] + seen[1]
    assert len(together) == together.total() == total
    with ConsumerConnector(feed.bootstrap_servers, group_id=group, **options) as connector:
        again = next(connector.stream(topic).batches(timeout=0.5))
    assert again == [], "all that was handed out is committed"
