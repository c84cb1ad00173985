"""The accumulator between users' threads and the sender: checks, batches and memory, with a clock that tests
control."""

import itertools
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from pyklient.errors import (
    BufferFullError,
    ClosedError,
    ConfigurationError,
    KafkaTimeoutError,
    MessageTooLargeError,
)
from pyklient.kernel import Batch, Delivery, UserFunctions
from pyklient.kernel.append.open_batches import BATCH_COST
from pyklient.producer.accumulate.accumulator import Clocks, RecordAccumulator
from pyklient.producer.accumulate.leader_availability import LeaderAvailability
from pyklient.producer.accumulate.limits import Limits
from pyklient.producer.accumulate.partitioner import StickyPartitioner
from pyklient.producer.broker_requirements import BrokerRequirements
from pyklient.producer.threads.sender_thread import SenderThread
from pyklient.producer.topic_metadata import TopicMetadata
from pyklient.protocol.records import Compression
from tests.producer.script import wait_until

pytestmark = pytest.mark.both_kernels

LIMITS = Limits(batch_size=1_000, buffer_memory=80_000, max_request_size=5_000, max_block=0.05, linger=0.005)


class FixedTopics(TopicMetadata):
    """Topics that exist without a broker."""

    def __init__(self, **partitions: int) -> None:
        self.partitions = partitions
        self.requirements = BrokerRequirements(Compression.NONE, idempotence=False)

    def wait(self, topic: str, deadline: float) -> int:
        if topic not in self.partitions:
            raise KafkaTimeoutError(f"no {topic}")
        return self.partitions[topic]

    refreshed = wait

    def available(self, topic: str, unavailable: frozenset[int]) -> list[int]:
        return [
            number
            for number in range(self.partitions[topic])
            if self.is_available(topic, number, unavailable)
        ]

    def is_available(self, topic: str, partition: int, unavailable: frozenset[int]) -> bool:
        """Each partition has a leader of its own, with the same number."""
        return partition not in unavailable

    def forget(self, topic: str) -> None:
        return None


class NotedThread(SenderThread):
    """A thread that never runs, and records what it is asked to do."""

    def __init__(self) -> None:
        super().__init__("pyklient-producer test")
        self.starts = 0
        self.wakes: list[float] = []
        self.is_sender = False

    def is_current(self) -> bool:
        return self.is_sender

    def start(self) -> None:
        self.starts += 1

    def notify(self, due: float) -> None:
        self.wakes.append(due)


class Bench:
    """An accumulator without a sender: the test does the sender's part."""

    def __init__(
        self,
        limits: Limits = LIMITS,
        *,
        partitioner: Any = None,
        key_encoder: Callable[[Any], Any] | None = None,
        value_encoder: Callable[[Any], Any] | None = None,
        sticky: StickyPartitioner | None = None,
        **partitions: int,
    ) -> None:
        self.now = 100.0
        self.thread = NotedThread()
        self.leaders = LeaderAvailability(1.0, lambda: self.now)
        self.topics = FixedTopics(**(partitions or {"clicks": 1}))
        self.accumulator = RecordAccumulator(
            limits,
            Clocks(lambda: 1_000_000_000, lambda: self.now),
            UserFunctions(key_encoder, value_encoder, partitioner),
            sticky or StickyPartitioner(random.Random(1)),
            self.leaders,
            self.topics,
            self.thread,
        )

    def send(self, *arguments: Any, **named: Any) -> Delivery:
        return self.accumulator.appender.send(*arguments, **named)

    def finish(self, batch: Batch, error: Any = None) -> None:
        """Complete a batch that has been stored, as the sender does."""
        self.accumulator.appender.seal_batch(batch)
        listeners = batch.report(0, batch.count, 0, -1, error)
        self.thread.is_sender = True
        self.accumulator.finished([batch], listeners or [])
        self.thread.is_sender = False


def test_the_sender_starts_with_the_first_record() -> None:
    bench = Bench()
    assert bench.thread.starts == 0
    bench.send("clicks", b"x")
    bench.send("clicks", b"x")
    assert bench.thread.starts == 1


def test_records_gather_in_a_batch_and_the_sender_hears_when_it_is_due() -> None:
    bench = Bench()
    batches = {bench.send("clicks", b"x").batch_and_index[0] for _ in range(10)}
    assert list(bench.accumulator.new_batches) == list(batches)
    assert bench.thread.wakes == [100.005]
    (batch,) = batches
    assert (batch.count, batch.created, batch.sealed) == (10, 100.0, False)


def test_a_full_batch_is_closed_and_the_sender_woken_at_once() -> None:
    bench = Bench()
    while len(bench.accumulator.new_batches) < 2:
        bench.send("clicks", bytes(90))
    first, second = bench.accumulator.new_batches
    assert first.sealed
    assert not second.sealed
    assert first.size <= 1_000 - 61
    assert bench.thread.wakes == [100.005, 100.0]


def test_a_batch_that_one_record_fills_waits_for_no_other() -> None:
    bench = Bench()
    bench.send("clicks", bytes(2_000))
    (batch,) = bench.accumulator.new_batches
    assert batch.sealed
    assert bench.thread.wakes == [100.0]


def test_records_without_a_key_move_on_with_each_batch_and_the_full_one_is_due() -> None:
    bench = Bench(clicks=4)
    sent = [bench.send("clicks", bytes(90)) for _ in range(60)]
    runs = [left for left, right in itertools.pairwise(sent) if left.partition != right.partition]
    assert len(runs) >= 4
    for batch in bench.accumulator.new_batches:
        assert batch.sealed == (batch is not sent[-1].batch_and_index[0])
    newest = {batch.partition: batch for batch in bench.accumulator.new_batches}
    due = {batch for batch in newest.values() if batch.sealed}
    assert due
    assert due <= set(bench.accumulator.sealer.due_batches)


@pytest.mark.parametrize(
    ("arguments", "named", "error", "words"),
    [
        (("clicks", "text"), {}, TypeError, "value_encoder"),
        (("clicks", b"x", "text"), {}, TypeError, "key_encoder"),
        (("clicks", 5), {}, TypeError, "bytes or None, not int"),
        (("clicks", b"x"), {"key": 5}, TypeError, "key must be bytes"),
        ((None, b"x"), {}, TypeError, "topic"),
        (("", b"x"), {}, TypeError, "topic"),
        (("clicks", b"x"), {"timestamp_ms": "now"}, TypeError, "timestamp_ms"),
        (("clicks", b"x"), {"timestamp_ms": True}, TypeError, "timestamp_ms must be a whole number"),
        (("clicks", b"x"), {"timestamp_ms": -5}, ConfigurationError, "timestamp_ms=-5 is out of range"),
        (("a" * 250, b"x"), {}, ConfigurationError, "250 characters; at most 249 are allowed"),
        (("a b", b"x"), {}, ConfigurationError, "'a b' is not a valid name of a topic: only a-z"),
        (("clicks", b"x"), {"headers": 5}, TypeError, "headers must be a list"),
        (("clicks", b"x"), {"headers": {"a": b"b"}}, TypeError, "pair"),
        (("clicks", b"x"), {"headers": [("a", "b")]}, TypeError, "header 'a' must be bytes or None"),
        (("clicks", b"x"), {"headers": [(b"a", b"b")]}, TypeError, "name of a header"),
        (("clicks", b"x"), {"headers": [("a", b"b", b"c")]}, TypeError, "pair"),
        (("clicks", b"x"), {"on_delivery": 5}, TypeError, "on_delivery"),
        (("clicks", b"x"), {"partition": 1.5}, TypeError, "partition"),
        (("clicks", b"x"), {"partition": False}, TypeError, "partition must be a whole number, not False"),
        (("clicks", b"x"), {"partition": 1}, ConfigurationError, "partition 1 of topic 'clicks'"),
        (("clicks", bytes(5_000)), {}, MessageTooLargeError, "max_request_size=5,000"),
        (("other", b"x"), {}, KafkaTimeoutError, "no other"),
    ],
)
def test_each_mistake_has_an_error_of_its_own(
    arguments: tuple[Any, ...], named: dict[str, Any], error: type[Exception], words: str
) -> None:
    bench = Bench()
    bench.send("clicks", b"x")
    used = bench.accumulator.appender.used_memory
    with pytest.raises(error, match=words):
        bench.send(*arguments, **named)
    assert bench.accumulator.appender.used_memory == used


def test_a_record_that_memory_can_never_hold_says_so() -> None:
    bench = Bench(LIMITS._replace(buffer_memory=6_000))
    with pytest.raises(MessageTooLargeError, match="buffer_memory=6,000"):
        bench.send("clicks", bytes(2_500))


def test_buffers_of_other_kinds_become_bytes() -> None:
    bench = Bench()
    bench.send("clicks", bytearray(b"a"), memoryview(b"k"), headers=[("h", bytearray(b"v"))])
    bench.send("clicks", None, None)
    (batch,) = bench.accumulator.new_batches
    assert b"\x02k\x02a\x02\x02h\x02v" in bytes(batch.payload())


def test_encoders_make_bytes_or_their_error_is_raised() -> None:
    bench = Bench(key_encoder=lambda key: b"k%d" % key, value_encoder=str.encode)
    bench.send("clicks", "text", 7)
    (batch,) = bench.accumulator.new_batches
    assert b"k7" in bytes(batch.payload())
    with pytest.raises(TypeError):
        bench.send("clicks", b"no text", 7)
    careless = Bench(value_encoder=lambda value: value)
    with pytest.raises(ConfigurationError, match="value_encoder returned str"):
        careless.send("clicks", "text")
    assert batch.count == 1


def fill(bench: Bench) -> None:
    """Send until there is no memory for another record."""

    def send_for_ever() -> None:
        while True:
            bench.send("clicks", bytes(90))

    bench.thread.is_sender = True  # who never waits
    with pytest.raises(BufferFullError, match="buffer_memory=80,000"):
        send_for_ever()
    bench.thread.is_sender = False


def test_memory_that_is_used_up_blocks_and_then_fails() -> None:
    bench = Bench()
    fill(bench)
    bench.accumulator.clocks = Clocks(lambda: 1_000_000_000, time.monotonic)
    started = time.monotonic()
    with pytest.raises(BufferFullError, match="max_block_ms=50"):
        bench.send("clicks", bytes(90))
    assert 0.05 <= time.monotonic() - started < 20
    assert bench.accumulator.appender.used_memory <= 80_000


def test_memory_that_is_freed_goes_to_those_who_wait_in_turn() -> None:
    bench = Bench(LIMITS._replace(max_block=10.0))
    fill(bench)
    bench.accumulator.clocks = Clocks(lambda: 1_000_000_000, time.monotonic)
    order: list[int] = []

    def send(number: int) -> None:
        bench.send("clicks", bytes(900))
        order.append(number)

    threads = []
    for number in range(3):
        thread = threading.Thread(target=send, args=(number,), daemon=True)
        thread.start()
        threads.append(thread)
        wait_until(lambda: len(bench.accumulator._waiting.wakeups) == len(threads))
    for batch in list(bench.accumulator.unfinished()):
        bench.accumulator.appender.seal_batch(batch)
        batch.report(0, batch.count, 0, -1, None)
        bench.accumulator.finished([batch], [])
    for thread in threads:
        thread.join(30)
    assert sorted(order) == [0, 1, 2]
    assert not bench.accumulator._waiting.wakeups
    assert bench.accumulator.appender.memory_limit == 80_000


def test_a_small_record_does_not_overtake_a_large_one_that_waits_for_memory() -> None:
    bench = Bench(LIMITS._replace(max_block=10.0, buffer_memory=4 * (3_000 + BATCH_COST) + 6_000))
    for _ in range(4):
        bench.send("clicks", bytes(3_000))
    bench.accumulator.clocks = Clocks(lambda: 1_000, time.monotonic)
    threads = []
    for size in (4_000, 10):
        thread = threading.Thread(target=bench.send, args=("clicks", bytes(size)), daemon=True)
        thread.start()
        threads.append(thread)
        wait_until(lambda: len(bench.accumulator._waiting.wakeups) == len(threads))
    for batch in bench.accumulator.unfinished()[:2]:
        bench.finish(batch)
    for thread in threads:
        thread.join(30)
    assert not bench.accumulator._waiting.wakeups


def test_nothing_lingers_while_somebody_waits_for_memory() -> None:
    bench = Bench(LIMITS._replace(batch_size=1_000_000, linger=3_600.0), clicks=3)
    bench.accumulator.clocks = Clocks(lambda: 1_000, time.monotonic)
    for partition in range(3):
        bench.send("clicks", bytes(1_000), partition=partition)
    fill(bench)
    with pytest.raises(BufferFullError):
        bench.send("clicks", bytes(1_000))
    assert all(batch.sealed for batch in bench.accumulator.unfinished())
    assert set(bench.accumulator.sealer.due_batches) == set(bench.accumulator.new_batches)


def test_a_batch_that_is_due_stays_open_while_somebody_waits_for_memory() -> None:
    bench = Bench(LIMITS._replace(batch_size=1_000_000, linger=10.0), clicks=3)
    old = bench.send("clicks", b"old", partition=0).batch_and_index[0]
    bench.now += 10.0
    new = bench.send("clicks", b"new", partition=1).batch_and_index[0]
    bench.accumulator.send_open_batches()
    assert (old.sealed, new.sealed) == (False, True)
    assert list(bench.accumulator.sealer.due_batches) == [new]
    assert bench.thread.wakes[-1] == bench.now
    assert bench.send("clicks", b"old", partition=0).batch_and_index == (old, 1)


def test_all_memory_comes_back() -> None:
    bench = Bench()
    for _ in range(20):
        bench.send("clicks", bytes(90), on_delivery=lambda delivery: None)
    for batch in bench.accumulator.unfinished():
        bench.finish(batch)
    assert bench.accumulator.appender.used_memory == 0
    assert bench.accumulator.unfinished() == []
    assert not bench.accumulator.has_unfinished()
    assert bench.accumulator.oldest_unfinished() is None
    assert not bench.accumulator._unfinished.counts("clicks")
    assert not bench.accumulator._unfinished.drain_open()


def test_a_callback_may_send_its_record_again_where_memory_is_full() -> None:
    bench = Bench()
    again: list[Delivery] = []
    bench.send("clicks", bytes(90), on_delivery=lambda _: again.append(bench.send("clicks", bytes(90))))
    batch = bench.accumulator.new_batches[0]
    fill(bench)
    bench.finish(batch)
    assert len(again) == 1
    assert bench.accumulator.appender.used_memory <= 80_000


def test_compression_gives_memory_back() -> None:
    bench = Bench()
    bench.send("clicks", bytes(500))
    (batch,) = bench.accumulator.new_batches
    bench.accumulator.appender.seal_batch(batch)
    bench.accumulator.shrunk(batch, 450)
    used = bench.accumulator.appender.used_memory
    bench.finish(batch)
    assert used > 0
    assert bench.accumulator.appender.used_memory == 0


def test_memory_in_use_is_what_the_batches_that_are_not_done_take() -> None:
    bench = Bench(clicks=2)
    bench.send("clicks", bytes(500), partition=0)
    bench.send("clicks", bytes(500), partition=1)
    compressed, other = bench.accumulator.new_batches
    assert bench.accumulator.appender.used_memory == compressed.charged + other.charged
    bench.accumulator.appender.seal_batch(compressed)
    bench.accumulator.shrunk(compressed, 450)
    assert bench.accumulator.appender.used_memory == compressed.charged + other.charged
    bench.finish(compressed)
    assert bench.accumulator.appender.used_memory == other.charged


def test_sealing_open_batches_ends_what_is_under_construction() -> None:
    bench = Bench(clicks=3)
    for partition in range(3):
        bench.send("clicks", b"x", partition=partition)
    batches = bench.accumulator.seal_open_batches()
    assert len(batches) == 3
    assert all(batch.sealed for batch in batches)
    bench.send("clicks", b"x", partition=0)
    assert bench.accumulator.new_batches[-1] not in batches


def test_after_the_end_every_send_is_refused() -> None:
    bench = Bench()
    bench.send("clicks", b"x")
    bench.accumulator.close(ClosedError("closed"))
    bench.accumulator.close(KafkaTimeoutError("later"))
    for _ in range(2):
        with pytest.raises(ClosedError, match="closed"):
            bench.send("clicks", b"x")


def test_a_partitioner_of_the_users_is_asked_once_for_each_record() -> None:
    asked: list[bytes | None] = []

    def choose(topic: str, key: bytes | None, count: int) -> int:
        asked.append(key)
        return count - 1

    bench = Bench(partitioner=choose, clicks=3)
    deliveries = [bench.send("clicks", bytes(400), key) for key in (b"a", None, b"b", b"c")]
    assert asked == [b"a", None, b"b", b"c"]
    assert {delivery.partition for delivery in deliveries} == {2}
