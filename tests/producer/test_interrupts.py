"""Ctrl-C, signal handlers and finalizers: code that runs between any two steps of a thread that sends."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from types import FrameType
from typing import Any

import pytest

from pyklient.kernel import Delivery
from pyklient.producer.bulk_delivery import BulkDelivery
from pyklient.producer.producer import Producer
from pyklient.topic_partition import TopicPartition
from tests.producer.script import TOPIC, ProduceBroker, producing

pytestmark = pytest.mark.both_kernels


class Interruption:
    """A profile function that raises KeyboardInterrupt at the *step*-th moment at which Python checks for
    signals: when it enters a function of its own or returns from a function in C. It ignores this file."""

    def __init__(self, step: int) -> None:
        self.left = step

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event in ("call", "c_return") and frame.f_code.co_filename != __file__:
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt


def interrupt(step: int, call: Callable[[], object]) -> bool:
    """Raise KeyboardInterrupt at *step* in the middle of *call*. Return True if *call* has so many steps."""
    interruption, interrupted = Interruption(step), False
    before = sys.getprofile()
    sys.setprofile(interruption)
    try:
        call()
    except KeyboardInterrupt:
        interrupted = True
    finally:
        sys.setprofile(before)
    assert interrupted == (interruption.left <= 0), f"interrupted at step {step}"
    return interrupted


def send_and_wait(producer: Producer) -> None:
    producer.send(TOPIC, b"interrupted").result(30)


def send_and_flush(producer: Producer) -> None:
    producer.send(TOPIC, b"interrupted")
    producer.flush(60)


def send_what_fills_a_batch(producer: Producer) -> None:
    producer.send(TOPIC, bytes(2_000))


def send_more_than_fits(producer: Producer) -> None:
    for _ in range(2):
        producer.send(TOPIC, bytes(2_000))


@pytest.mark.parametrize(
    "interruptible", [send_and_wait, send_and_flush, send_what_fills_a_batch, send_more_than_fits]
)
def test_a_producer_goes_on_after_ctrl_c_at_any_step(
    broker: ProduceBroker, interruptible: Callable[[Producer], None]
) -> None:
    limits = {"batch_size": 1_000, "buffer_memory": 8_000, "max_block_ms": 5_000}
    with producing(broker, linger_ms=1, **limits) as producer:
        producer.send(TOPIC, b"first").result(30)
        for step in count(1):
            was_interrupted = interrupt(step, partial(interruptible, producer))
            after = producer.send(TOPIC, b"%d" % step)
            assert after.exception(30) is None, f"interrupted at step {step}"
            producer.flush(60)
            assert producer._accumulator.unfinished() == []
            if not was_interrupted:
                break
    assert step > 10
    told = [value for value in broker.stored[0] if value and value.isdigit()]
    assert told == [b"%d" % number for number in range(1, step + 1)]


@contextmanager
def signals(handle: Callable[[], object]) -> Iterator[None]:
    """Call *handle* at random moments, also while it runs."""
    before = signal.signal(signal.SIGALRM, lambda number, frame: handle())
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_handler_of_a_signal_may_send_in_the_middle_of_a_send(broker: ProduceBroker) -> None:
    by_handler: list[Delivery] = []
    sent: list[Delivery] = []
    with producing(broker, linger_ms=1, batch_size=300) as producer:
        producer.send(TOPIC, b"first").result(30)
        with signals(lambda: by_handler.append(producer.send(TOPIC, b"from the handler"))):
            while len(sent) < 5_000 or len(by_handler) < 10:
                sent.append(producer.send(TOPIC, b"%d" % len(sent)))
        producer.flush(60)
        stored = broker.stored[0]
        assert len(stored) == 1 + len(sent) + len(by_handler)
        values = [b"%d" % number for number in range(len(sent))]
        assert [stored[delivery.result(0).offset] for delivery in sent] == values
        assert {stored[delivery.result(0).offset] for delivery in by_handler} == {b"from the handler"}


def test_a_handler_of_a_signal_may_send_in_the_middle_of_a_bulk(broker: ProduceBroker) -> None:
    by_handler: list[Delivery] = []
    values = [b"%d" % number for number in range(20_000)]
    with producing(broker, linger_ms=1) as producer:
        producer.send(TOPIC, b"first").result(30)
        bulks: list[BulkDelivery] = []
        with signals(lambda: by_handler.append(producer.send(TOPIC, b"from the handler"))):
            while len(by_handler) < 10:
                bulks.append(producer.send_many(TOPIC, values))
        producer.flush(60)
        stored = broker.stored[0]
        assert len(stored) == 1 + len(bulks) * len(values) + len(by_handler)
        for bulk in bulks:
            offsets = [offset for run in bulk.result(0)[TopicPartition(TOPIC, 0)] for offset in run]
            assert [stored[offset] for offset in offsets] == values
            assert bulk.count == len(values)


def test_a_first_send_that_was_interrupted_can_be_made_again(broker: ProduceBroker) -> None:
    with producing(broker) as producer:
        producer._thread.start()  # as far as Ctrl-C let it come
        assert producer.send(TOPIC, b"x").result(30).offset == 0
