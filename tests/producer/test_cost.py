"""What a record costs does not grow with the number of records that are queued before it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pyklient import Producer
from pyklient import producer as package
from pyklient.kernel import Batch
from pyklient.producer.deliver.partition_queue import PartitionQueue
from pyklient.producer.delivery_tracker import DeliveryTracker
from tests.producer.holding import HoldingBroker
from tests.producer.script import ONE_BY_ONE, TOPIC, wait_until
from tests.steps import each_step

_FOLDER = str(package.__path__[0])


class Steps:
    """The number of instructions of Python code that run in ``pyklient/producer``, in all threads."""

    def __init__(self) -> None:
        self.counted: list[int] = []
        self.on = False

    def count(self) -> None:
        if self.on:
            self.counted.append(1)  # atomic


@contextmanager
def counting() -> Iterator[Steps]:
    """Count in this thread and in those that it starts."""
    steps = Steps()
    with each_step(steps.count, _FOLDER):
        yield steps


def steps_of_one_record(queued: int) -> float:
    """Return the steps for each of *queued* records, which are sent one by one and wait for a broker."""
    with HoldingBroker(partitions=3) as broker, counting() as steps:
        producer = broker.producer(**ONE_BY_ONE, buffer_memory=1 << 30)
        producer.send(TOPIC, b"first").result(30)
        broker.hold()
        steps.on = True
        for number in range(queued):
            producer.send(TOPIC, b"value", partition=number % 3)
        broker.let_go()
        producer.close(120)
        steps.on = False
        assert sum(map(len, broker.stored.values())) == queued + 1
    return len(steps.counted) / queued


def test_a_record_takes_as_many_steps_behind_many_others_as_behind_a_few() -> None:
    few, many = steps_of_one_record(60), steps_of_one_record(1200)
    assert many < 1.5 * few, f"{few:.0f} steps behind 60 records, {many:.0f} behind 1200"


def catch_up(producer: Producer) -> None:
    """Wait until the sender has run once more, and so has collected all batches."""
    producer._thread.post(lambda: None)
    assert producer._thread.catch_up(30)


def test_batches_that_wait_behind_others_are_not_checked_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    checks: list[float] = []
    next_check = PartitionQueue.next_check

    def counted(queue: PartitionQueue, now: float) -> float:
        checks.append(now)
        return next_check(queue, now)

    with HoldingBroker() as broker, broker.producer(**ONE_BY_ONE, buffer_memory=1 << 30) as producer:
        producer.send(TOPIC, b"first").result(30)
        broker.hold()
        for _ in range(10):
            producer.send(TOPIC, b"value")
        catch_up(producer)
        monkeypatch.setattr(PartitionQueue, "next_check", counted)
        for _ in range(500):
            producer.send(TOPIC, b"value")
        catch_up(producer)
        monkeypatch.undo()
        broker.let_go()
    assert len(checks) <= 5


def test_a_flush_wakes_up_once_for_each_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[Batch] = []
    wait = DeliveryTracker.wait

    def counted(tracker: DeliveryTracker, batch: Batch, timeout: float | None) -> bool:
        waits.append(batch)
        return wait(tracker, batch, timeout)

    monkeypatch.setattr(DeliveryTracker, "wait", counted)
    with HoldingBroker(partitions=3) as broker, broker.producer(**ONE_BY_ONE) as producer:
        producer.send(TOPIC, b"first").result(30)
        waits.clear()
        broker.hold()
        for number in range(90):
            producer.send(TOPIC, b"value", partition=number % 3)
        flushing = threading.Thread(target=producer.flush, args=(60,))
        flushing.start()
        wait_until(lambda: bool(waits))
        broker.let_go()
        flushing.join(60)
        assert not flushing.is_alive()
    assert len(waits) <= 3
