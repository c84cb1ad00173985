"""Flush, close and ``with``: no sent record is forgotten, no failure is lost, no thread remains."""

import gc
import os
import pickle
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

from pyklient.error_codes import ErrorCode
from pyklient.errors import BrokerError, ClosedError, DeliveryError, ForkError, KafkaError, KafkaTimeoutError
from pyklient.kernel import Delivery
from tests.net.scripted import SILENCE
from tests.producer.script import TOPIC, LoseAnswer, ProduceBroker, Refuse, producing, wait_until

pytestmark = pytest.mark.both_kernels

ROOT = Path(__file__).parents[2]


_others: set[threading.Thread] = set()
"""The threads that ran before the test began."""


@pytest.fixture(autouse=True)
def _note_other_threads() -> None:
    _others.clear()
    _others.update(threading.enumerate())


def own_threads() -> list[str]:
    """Return the names of the threads of pyklient that the test has started and that still run."""
    started = set(threading.enumerate()) - _others
    return [thread.name for thread in started if thread.name.startswith("pyklient-")]


def run(program: str, broker: ProduceBroker, *flags: str) -> subprocess.CompletedProcess[str]:
    """Run *program*, in which ``producer`` is a producer for *broker*, in a separate process."""
    head = f"from pyklient.producer.producer import Producer\nproducer = Producer({broker.address!r})\n"
    return subprocess.run(
        [sys.executable, *flags, "-c", head + program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_flush_waits_for_everything_that_was_sent_and_does_not_linger(broker: ProduceBroker) -> None:
    with producing(broker, linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
        sent = [producer.send(TOPIC, b"%d" % number) for number in range(100)]
        producer.flush(60)
        assert all(delivery.done() for delivery in sent)
        producer.flush(60)


def test_a_small_memory_and_a_long_linger_do_not_block_each_other(broker: ProduceBroker) -> None:
    with producing(broker, linger_ms=60_000, delivery_timeout_ms=120_000, buffer_memory=50_000) as producer:
        for number in range(1_000):
            producer.send(TOPIC, b"%0200d" % number)
        producer.flush(60)
    assert len(broker.stored[0]) == 1_000


def test_a_flush_that_takes_too_long_says_so_and_the_records_go_on(broker: ProduceBroker) -> None:
    go_on = threading.Event()
    broker.faults.append(lambda request: go_on.wait(60) and None)
    with producing(broker) as producer:
        delivery = producer.send(TOPIC, b"x")
        with pytest.raises(KafkaTimeoutError, match="1 record was not"):
            producer.flush(0.05)
        go_on.set()
        assert delivery.result(30).offset == 0


def test_a_flush_waits_for_the_callbacks_too(broker: ProduceBroker) -> None:
    go_on = threading.Event()
    heard: list[Delivery] = []

    def hear(delivery: Delivery) -> None:
        go_on.wait(60)
        heard.append(delivery)

    with producing(broker) as producer:
        delivery = producer.send(TOPIC, b"x", on_delivery=hear)
        assert delivery.result(30).offset == 0
        with pytest.raises(KafkaTimeoutError, match="on_delivery"):
            producer.flush(0.05)
        threading.Timer(0.05, go_on.set).start()
        producer.flush(60)
        assert heard == [delivery]


def test_a_failure_that_nobody_saw_is_raised_by_flush_once(broker: ProduceBroker) -> None:
    broker.faults.append(Refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with producing(broker, linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
        for _ in range(3):
            producer.send(TOPIC, b"x")
        with pytest.raises(DeliveryError, match="3 records") as caught:
            producer.flush(60)
        assert caught.value.count == 3
        assert isinstance(caught.value.errors[TOPIC], BrokerError)
        assert caught.value.__cause__ is caught.value.errors[TOPIC]
        assert "TOPIC_AUTHORIZATION_FAILED" in str(caught.value)
        producer.flush(60)
        producer.close()


def test_a_failure_that_somebody_saw_is_not_raised_again(broker: ProduceBroker) -> None:
    broker.faults.append(Refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    heard: list[Delivery] = []
    with producing(broker, linger_ms=2_000) as producer:  # all are in one batch, also on a busy machine
        sent = [producer.send(TOPIC, b"x") for _ in range(4)]
        producer.send(TOPIC, b"x", on_delivery=heard.append)
        sent[0].add_done_callback(heard.append)
        assert sent[1].exception(30) is not None
        with pytest.raises(BrokerError):
            sent[2].result(30)
        with pytest.raises(DeliveryError) as caught:
            producer.flush(60)
        assert caught.value.count == 1
        assert len(heard) == 2


def test_a_failure_looked_at_late_is_not_raised_either(broker: ProduceBroker) -> None:
    broker.faults.append(Refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with producing(broker) as producer:
        delivery = producer.send(TOPIC, b"x")
        wait_until(delivery.done)
        assert delivery.exception(0) is not None
        assert delivery.exception(0) is not None
        producer.flush(60)


def test_failures_of_several_topics_are_told_apart(broker: ProduceBroker) -> None:
    broker.known_topics["views"] = 0
    broker.faults.extend([Refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED)] * 2)
    with producing(broker, linger_ms=0) as producer:
        wait_until(producer.send(TOPIC, b"x").done)
        wait_until(producer.send("views", b"x").done)
        with pytest.raises(DeliveryError) as caught:
            producer.close()
    assert caught.value.count == 2
    assert set(caught.value.errors) == {TOPIC, "views"}


def test_the_block_delivers_before_it_ends(broker: ProduceBroker) -> None:
    with broker.producer(linger_ms=60_000, delivery_timeout_ms=120_000) as producer:
        for number in range(1_000):
            producer.send(TOPIC, b"%d" % number)
    assert len(broker.stored[0]) == 1_000
    assert own_threads() == []


def test_a_clean_end_of_the_block_raises_what_failed_unseen(broker: ProduceBroker) -> None:
    broker.faults.append(Refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with pytest.raises(DeliveryError, match="1 record was"), broker.producer() as producer:
        producer.send(TOPIC, b"x")
    assert own_threads() == []


def test_an_exception_that_leaves_the_block_is_not_masked_and_the_records_are_delivered(
    broker: ProduceBroker,
) -> None:
    def leave() -> None:
        with broker.producer(batch_size=0) as producer:
            producer.send(TOPIC, b"delivered")
            producer.send(TOPIC, b"refused")
            raise ZeroDivisionError

    broker.faults.extend([None, Refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED)])
    with pytest.raises(ZeroDivisionError):
        leave()
    assert broker.stored[0] == [b"delivered"]
    assert own_threads() == []


def test_close_may_be_called_again_and_send_says_that_it_is_closed(broker: ProduceBroker) -> None:
    producer = broker.producer()
    producer.send(TOPIC, b"x")
    producer.close()
    producer.close()
    for call in (
        lambda: producer.send(TOPIC, b"x"),
        lambda: producer.send_many(TOPIC, [b"x"]),
        lambda: producer.flush(1),
    ):
        with pytest.raises(ClosedError):
            call()
    assert "closed" in repr(producer)


def test_a_producer_that_was_never_used_closes(broker: ProduceBroker) -> None:
    with broker.producer():
        pass
    broker.producer().close()
    assert broker.accepted == 0


@pytest.mark.parametrize("timeout", [0, 0.2])
def test_close_ends_in_time_and_fails_what_is_left(broker: ProduceBroker, timeout: float) -> None:
    broker.faults.append(LoseAnswer(SILENCE))
    producer = broker.producer(linger_ms=200)
    sent = [producer.send(TOPIC, b"x") for _ in range(3)]
    wait_until(lambda: len(broker.seen) > 0)
    started = time.monotonic()
    with pytest.raises(DeliveryError, match="3 records"):
        producer.close(timeout)
    assert time.monotonic() - started < timeout + 20
    assert own_threads() == []
    assert isinstance(sent[0].exception(0), ClosedError)


def test_close_fails_senders_that_wait_for_memory(broker: ProduceBroker) -> None:
    broker.faults.append(LoseAnswer(SILENCE))
    producer = broker.producer(buffer_memory=20_000)
    errors: list[BaseException] = []

    def fill() -> None:
        try:
            while True:
                producer.send(TOPIC, bytes(1_000))
        except KafkaError as error:
            errors.append(error)

    thread = threading.Thread(target=fill, daemon=True)
    thread.start()
    wait_until(lambda: bool(producer._accumulator._waiting.wakeups))
    with pytest.raises(DeliveryError):
        producer.close(0)
    thread.join(30)
    assert [type(error) for error in errors] == [ClosedError]


def test_closing_from_a_callback_ends_the_producer(broker: ProduceBroker) -> None:
    producer = broker.producer()
    delivery = producer.send(TOPIC, b"x", on_delivery=lambda _: producer.close(5))
    assert delivery.result(30).offset == 0
    wait_until(lambda: own_threads() == [])
    producer.close()


def test_a_sender_that_crashes_takes_its_records_with_it_and_says_so(
    broker: ProduceBroker, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    broker.faults.extend([LoseAnswer(SILENCE)] * 1_000)
    producer = broker.producer(batch_size=0)
    sent = [producer.send(TOPIC, b"x") for _ in range(9)]
    producer._thread.post(fail)
    for delivery in sent:
        with pytest.raises(KafkaError, match="ZeroDivisionError"):
            delivery.result(30)
    with pytest.raises(KafkaError, match="ZeroDivisionError"):
        producer.send(TOPIC, b"x")
    producer.close()
    assert own_threads() == []
    assert "failed unexpectedly" in caplog.text


def test_several_threads_may_close_at_once(broker: ProduceBroker) -> None:
    producer = broker.producer()
    producer.send(TOPIC, b"x")
    threads = [threading.Thread(target=producer.close, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert own_threads() == []
    assert broker.stored[0] == [b"x"]


def test_what_a_callback_raises_is_logged_and_harms_nobody(
    broker: ProduceBroker, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(delivery: Delivery) -> None:
        raise SystemExit("no reason")

    with producing(broker) as producer:
        producer.send(TOPIC, b"x", on_delivery=fail)
        assert producer.send(TOPIC, b"y").result(30).offset == 1
        assert producer.send(TOPIC, b"z").result(30).offset == 2
    assert "no reason" in caplog.text


def test_a_callback_may_send_again_but_not_wait(broker: ProduceBroker) -> None:
    broker.faults.append(Refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    again: list[Delivery] = []
    waited: list[BaseException] = []

    def hear(delivery: Delivery) -> None:
        again.append(producer.send(TOPIC, b"again"))
        for call in (again[0].result, producer.flush):
            try:
                call()
            except KafkaError as error:
                waited.append(error)

    with producing(broker) as producer:
        producer.send(TOPIC, b"x", on_delivery=hear)
        wait_until(lambda: len(waited) == 2)
        assert again[0].result(30).offset == 0
    assert all("on_delivery" in str(error) for error in waited)


def test_a_delivery_tells_late_listeners_here_and_now(broker: ProduceBroker) -> None:
    with producing(broker) as producer:
        delivery = producer.send(TOPIC, b"x")
        assert "under way" in repr(delivery)
        delivery.result(30)
        heard: list[int] = []
        delivery.add_done_callback(lambda _: heard.append(threading.get_ident()))
        assert heard == [threading.get_ident()]
        assert "offset 0" in repr(delivery)


def test_a_producer_does_not_travel_in_a_pickle(broker: ProduceBroker) -> None:
    with broker.producer() as producer, pytest.raises(TypeError, match="in each process"):
        pickle.dumps(producer)


def test_the_child_of_a_fork_is_told_and_the_parent_goes_on(broker: ProduceBroker) -> None:
    with producing(broker) as producer:
        pending = producer.send(TOPIC, b"parent's")
        pending.result(30)
        reader, writer = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            said = []
            for call in (
                lambda: producer.send(TOPIC, b"child's"),
                lambda: producer.send("other", b"child's"),
                lambda: producer.flush(1),
            ):
                try:
                    call()
                except ForkError:
                    said.append("told")
                except BaseException as error:
                    said.append(repr(error))
            producer.close()
            os.write(writer, " ".join(said).encode())
            os._exit(0)
        os.waitpid(child, 0)
        assert os.read(reader, 1_000) == b"told told told"
        os.close(reader)
        os.close(writer)
        assert producer.send(TOPIC, b"parent's too").result(30).offset == 1
    assert broker.stored[0] == [b"parent's", b"parent's too"]


def test_a_fork_while_others_send_does_not_lock_the_child_up(broker: ProduceBroker) -> None:
    with producing(broker) as producer:
        producer.send(TOPIC, b"x").result(30)
        stop = threading.Event()

        def busy() -> None:
            while not stop.is_set():
                producer.send(TOPIC, b"x")

        threads = [threading.Thread(target=busy, daemon=True) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(10):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                child = os.fork()
            if child == 0:
                try:
                    producer.send(TOPIC, b"x")
                except ForkError:
                    os._exit(7)
                os._exit(1)
            _, status = os.waitpid(child, 0)
            assert os.waitstatus_to_exitcode(status) == 7
        stop.set()
        for thread in threads:
            thread.join(30)


def test_a_producer_left_open_is_closed_at_exit_and_warned_about(broker: ProduceBroker) -> None:
    ran = run(f"producer.send({TOPIC!r}, b'x')", broker, "-W", "always")
    assert ran.returncode == 0, ran.stderr
    assert "ResourceWarning" in ran.stderr
    assert "never closed" in ran.stderr
    assert broker.stored[0] == [b"x"]


def test_a_producer_that_nobody_holds_any_more_delivers_and_ends(broker: ProduceBroker) -> None:
    held = [broker.producer(linger_ms=0)]
    held[0].send(TOPIC, b"x").result(30)
    delivery = held[0].send(TOPIC, b"y")
    with pytest.warns(ResourceWarning, match="never closed"):
        held.clear()
    assert delivery.result(30).offset == 1
    wait_until(lambda: own_threads() == [])


def test_records_of_several_threads_are_all_delivered(broker: ProduceBroker) -> None:
    def send(first: int) -> None:
        for number in range(first, first + 2_000):
            producer.send(TOPIC, b"%d" % number)

    with producing(broker, batch_size=5_000) as producer:
        threads = [
            threading.Thread(target=send, args=(first,), daemon=True) for first in range(0, 8_000, 2_000)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        producer.flush(60)
    stored = [int(value or b"") for value in broker.stored[0]]
    assert sorted(stored) == list(range(8_000))
    for first in range(0, 8_000, 2_000):
        mine = [number for number in stored if first <= number < first + 2_000]
        assert mine == sorted(mine), "a thread's records are out of order"


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_producer_may_be_collected_by_a_thread_that_holds_its_locks(broker: ProduceBroker) -> None:
    producer = broker.producer()
    producer.send(TOPIC, b"x").result(30)
    accumulator, thread = producer._accumulator, producer._thread
    pair: list[Any] = [producer]
    pair.append(pair)
    del producer, pair
    collected = threading.Event()

    def collect() -> None:
        with accumulator.tracker.lock:
            gc.collect()
        collected.set()

    threading.Thread(target=collect, daemon=True).start()
    assert collected.wait(30)
    assert thread.join(30)


def test_a_flush_or_close_that_takes_too_long_names_the_last_failure(broker: ProduceBroker) -> None:
    broker.faults.extend([Refuse(ErrorCode.NOT_ENOUGH_REPLICAS)] * 1_000)
    with producing(broker, linger_ms=0) as producer:
        delivery = producer.send(TOPIC, b"x")
        wait_until(lambda: len(broker.seen) > 1)
        with pytest.raises(KafkaTimeoutError, match=r"the last failure: .*NOT_ENOUGH_REPLICAS"):
            producer.flush(0.05)
        with pytest.raises(DeliveryError, match=r"the last failure: .*NOT_ENOUGH_REPLICAS"):
            producer.close(0.05)
        assert isinstance(delivery.exception(0), ClosedError)
