"""The classic producer as a whole: sync and async, its end, forks and wrong arguments."""

import gc
import pickle
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from pyklient.classic.classic_producer import ClassicProducer
from pyklient.classic.event_queue import EventQueue
from pyklient.classic.producer_config import ClassicProducerConfig
from pyklient.errors import (
    ConfigurationError,
    ForkError,
    KafkaError,
    KafkaTimeoutError,
    ProducerClosedError,
    QueueFullError,
)
from pyklient.kernel import KeyedMessage
from pyklient.properties.values import StaticBroker
from tests.classic.forked_child import in_child
from tests.classic.send_scripts import Recorder
from tests.classic.test_callback_handler import Hooks, async_config, messages


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    """A recorder that holds nothing any more at the end of the test, so that its thread ends."""
    recorder = Recorder()
    yield recorder
    recorder.gate.set()


_others: set[threading.Thread] = set()
"""The threads that ran before the test began."""


@pytest.fixture(autouse=True)
def _note_other_threads() -> None:
    _others.clear()
    _others.update(threading.enumerate())


def send_threads() -> list[threading.Thread]:
    """Return the send threads that the test has started and that still run."""
    started = set(threading.enumerate()) - _others
    return [thread for thread in started if thread.name.startswith("ProducerSendThread")]


def held(recorder: Recorder, **options: Any) -> ClassicProducer:
    """Return an async producer whose event handler stands still with the message ``s``."""
    recorder.gate = threading.Event()
    config = async_config(batch_num_messages=1, **options)
    producer = ClassicProducer(config, event_handler=recorder)
    producer.send(*messages("s"))
    recorder.wait(1)
    return producer


def test_a_synchronous_producer_raises_the_error_of_its_event_handler(recorder: Recorder) -> None:
    config = ClassicProducerConfig(metadata_broker_list="127.0.0.1:1")
    with ClassicProducer(config, event_handler=recorder) as producer:
        producer.send(*messages("12"))
        recorder.fails = True
        with pytest.raises(RuntimeError, match="the script says so"):
            producer.send(*messages("3"))
        assert producer.dropped_count == 0
    assert recorder.calls == ["handle 1 2", "handle 3", "close"]
    producer.close()
    with pytest.raises(ProducerClosedError):
        producer.send(*messages("4"))
    assert recorder.calls[-1] == "close"


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize("wrong", [None, b"value", ("topic", b"value"), [KeyedMessage("topic", b"1")]])
def test_send_accepts_only_messages_and_sends_nothing_of_a_call_with_others(
    recorder: Recorder, kind: Any, wrong: Any
) -> None:
    config = ClassicProducerConfig(metadata_broker_list="127.0.0.1:1", producer_type=kind)
    with ClassicProducer(config, event_handler=recorder) as producer:
        with pytest.raises(TypeError, match="send takes KeyedMessages, not "):
            producer.send(*messages("1"), wrong)
        producer.send()
    assert "handle 1" not in recorder.calls


def test_close_after_its_time_out_drops_what_is_queued_and_says_how_much(
    recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    producer = held(recorder)
    producer.send(*messages("123"))
    began = time.monotonic()
    with pytest.raises(KafkaTimeoutError, match=r": 3 of them were dropped, and its event handler is still"):
        producer.close(0.2)
    assert time.monotonic() - began < 20
    assert producer.dropped_count == 3
    assert "3 messages were dropped" in caplog.text
    recorder.gate.set()
    producer.close(10)
    assert recorder.calls == ["handle s", "close"]
    assert not send_threads()


def test_the_thread_that_gives_up_hands_out_no_batch_that_it_has_begun(recorder: Recorder) -> None:
    hooks = Hooks(recorder)
    hooks.last = ("last",)
    recorder.gate = threading.Event()
    producer = ClassicProducer(
        async_config(batch_num_messages=1), callback_handler=hooks, event_handler=recorder
    )
    producer.send(*messages("s"))
    recorder.wait(2)
    with pytest.raises(KafkaTimeoutError):
        producer.close(0)
    recorder.gate.set()
    producer.close(10)
    assert [call for call in recorder.calls if call.startswith("handle")] == ["handle s"]
    assert hooks.dropped == [
        "last: KafkaTimeoutError('the time-out of close has passed, and not all messages were sent')"
    ]


def test_a_send_that_waits_for_space_raises_when_the_producer_is_closed(recorder: Recorder) -> None:
    producer = held(recorder, queue_buffering_max_messages=1)
    producer.send(*messages("1"))
    raised: list[BaseException] = []

    def send() -> None:
        try:
            producer.send(*messages("2"))
        except ProducerClosedError as error:
            raised.append(error)

    thread = threading.Thread(target=send)
    thread.start()
    with pytest.raises(KafkaTimeoutError):
        producer.close(0.2)
    thread.join(30)
    assert len(raised) == 1


@pytest.mark.parametrize("timeout", [-1, 0, 5000])
def test_the_send_thread_does_not_wait_for_itself(recorder: Recorder, timeout: int) -> None:
    raised: list[BaseException] = []

    class Sending(Recorder):
        def handle(self, messages_: Sequence[Any]) -> None:
            super().handle(messages_)
            if messages_[0].message == "1":
                try:
                    producer.send(*messages("234"))
                except QueueFullError as error:
                    raised.append(error)
                producer.close()

    config = async_config(
        queue_buffering_max_messages=2, batch_num_messages=1, queue_enqueue_timeout_ms=timeout
    )
    handler = Sending()
    producer = ClassicProducer(config, event_handler=handler)
    producer.send(*messages("1"))
    handler.wait(4)
    producer.close(10)
    assert handler.calls == ["handle 1", "handle 2", "handle 3", "close"]
    assert "message 3 of 3" in str(raised[0])


def test_the_exception_that_ends_a_thread_does_not_end_the_send_thread(recorder: Recorder) -> None:
    class Exiting(Recorder):
        def handle(self, messages_: Sequence[Any]) -> None:
            super().handle(messages_)
            sys.exit("a handler must not do this")

    handler = Exiting()
    with ClassicProducer(async_config(batch_num_messages=1), event_handler=handler) as producer:
        producer.send(*messages("12"))
    assert handler.calls == ["handle 1", "handle 2", "close"]
    assert producer.dropped_count == 2


def test_messages_of_several_threads_all_arrive_in_the_order_of_each_thread(recorder: Recorder) -> None:
    class Collecting(Recorder):
        def __init__(self) -> None:
            super().__init__()
            self.found: list[tuple[int, int]] = []
            self.longest = 0

        def handle(self, messages_: Sequence[Any]) -> None:
            self.found += [message.message for message in messages_]
            self.longest = max(self.longest, len(messages_))

    handler = Collecting()
    config = async_config(queue_buffering_max_messages=50, batch_num_messages=20)
    with ClassicProducer(config, event_handler=handler) as producer:

        def send(sender: int) -> None:
            for first in range(0, 1000, 4):
                producer.send(*(KeyedMessage("topic", (sender, first + each)) for each in range(4)))

        senders = [threading.Thread(target=send, args=(sender,)) for sender in range(4)]
        for thread in senders:
            thread.start()
        for thread in senders:
            thread.join(30)
    assert handler.longest == 20
    for sender in range(4):
        assert [number for found, number in handler.found if found == sender] == list(range(1000))


def test_a_burst_that_an_idle_send_thread_can_take_is_not_refused(recorder: Recorder) -> None:
    """The send thread only has to run: no message is dropped because the program's thread was faster."""
    config = async_config(queue_buffering_max_messages=4, batch_num_messages=4, queue_enqueue_timeout_ms=0)
    with ClassicProducer(config, event_handler=recorder) as producer:
        for _ in range(200):
            producer.send(*messages("1"))
    assert producer.dropped_count == 0
    assert len(recorder.calls) == 51


def test_a_producer_of_the_parent_raises_in_the_child_of_a_fork(recorder: Recorder) -> None:
    producer = held(recorder)
    producer.send(*messages("1"))

    def check() -> None:
        with pytest.raises(ForkError):
            producer.send(*messages("2"))
        producer.close()

    in_child(check)
    recorder.gate.set()
    producer.close(10)
    assert recorder.calls == ["handle s", "handle 1", "close"]


PROGRAM = """
import atexit, sys
from pyklient import ClassicProducer, EventHandler, KeyedMessage
from pyklient.classic.producer_config import ClassicProducerConfig

class Printing(EventHandler):
    def handle(self, messages):
        print("handle", *(message.message for message in messages))
    def close(self):
        print("close")

def make():
    config = ClassicProducerConfig(metadata_broker_list="127.0.0.1:1", producer_type="async")
    return ClassicProducer(config, event_handler=Printing())

{program}
"""

AT_EXIT = """
producer = make()
producer.send(KeyedMessage("topic", "1"))
atexit.register(lambda: producer.send(KeyedMessage("topic", "2")))
"""

DROPPED = """
make().send(KeyedMessage("topic", "1"))
"""

STUCK = """
import logging, threading
from pyklient.classic import classic_producer
classic_producer._UNWIND_TIMEOUT = 0.3
logging.basicConfig()
released, begun = threading.Event(), threading.Event()

class Stuck(EventHandler):
    def handle(self, messages):
        begun.set()
        released.wait(60)
        raise RuntimeError("interrupted")
    def interrupt(self):
        released.set()

config = ClassicProducerConfig(
    metadata_broker_list="127.0.0.1:1", producer_type="async", batch_num_messages=1
)
producer = ClassicProducer(config, event_handler=Stuck())
producer.send(KeyedMessage("topic", "1"))
begun.wait(60)
producer.send(KeyedMessage("topic", "2"), KeyedMessage("topic", "3"))
del producer
"""


@pytest.mark.parametrize(("program", "sent"), [(AT_EXIT, "handle 1 2"), (DROPPED, "handle 1")])
def test_what_is_queued_is_sent_at_the_end_of_the_program(program: str, sent: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "always::ResourceWarning", "-c", PROGRAM.format(program=program)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.stdout == f"{sent}\nclose\n", ran.stderr
    assert "was never closed" in ran.stderr


def test_what_a_dropped_producer_cannot_send_before_the_program_ends_is_logged() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(program=STUCK)], capture_output=True, text=True, timeout=60
    )
    assert "not sent all messages before the time-out of close; 2 messages were dropped" in ran.stderr
    assert "Stuck.handle failed: RuntimeError('interrupted'); 1 message was dropped" in ran.stderr


def test_a_dropped_producer_sends_what_is_queued_and_its_thread_ends(recorder: Recorder) -> None:
    kept = [ClassicProducer(async_config(), event_handler=recorder)]
    kept[0].send(*messages("12"))
    [thread] = send_threads()
    with pytest.warns(ResourceWarning, match="was never closed"):
        kept.clear()
    thread.join(30)
    assert recorder.calls == ["handle 1 2", "close"]


def test_a_with_block_that_fails_sends_what_is_queued(recorder: Recorder) -> None:
    def use() -> None:
        with ClassicProducer(async_config(), event_handler=recorder) as producer:
            producer.send(*messages("12"))
            raise KeyError

    with pytest.raises(KeyError):
        use()
    assert recorder.calls == ["handle 1 2", "close"]


def test_a_producer_cannot_be_pickled(recorder: Recorder) -> None:
    with (
        ClassicProducer(async_config(), event_handler=recorder) as producer,
        pytest.raises(TypeError, match="cannot be pickled"),
    ):
        pickle.dumps(producer)


@pytest.mark.parametrize("options", [{"batch_num_messages": 10_001}, {"producer_type": "asynchronous"}])
def test_row_32_options_that_cannot_be_are_an_error(options: Any) -> None:
    with pytest.raises(ConfigurationError):
        async_config(**options) if "producer_type" not in options else ClassicProducerConfig(
            metadata_broker_list="127.0.0.1:1", **options
        )


def test_wrong_arguments_are_an_error_that_says_what_is_needed() -> None:
    make: Any = ClassicProducer
    with pytest.raises(TypeError, match=r"config must be a ClassicProducerConfig, not \{\}"):
        make({})
    with pytest.raises(TypeError, match=r"event_handler takes a pyklient\.EventHandler, not 5"):
        make(async_config(), event_handler=5)
    with pytest.raises(TypeError, match=r"callback_handler takes a pyklient\.CallbackHandler, not 5"):
        make(async_config(), callback_handler=5)
    assert not send_threads()


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("profile", "0.9", r"profile='0\.9' is not one of"),
        ("batch_num_messages", 0, "batch_num_messages=0 is out of range; choose a number from 1 to"),
        (
            "queue_buffering_max_messages",
            0,
            "queue_buffering_max_messages=0 is out of range; choose a number from 1 to",
        ),
        (
            "queue_buffering_max_ms",
            -1,
            "queue_buffering_max_ms=-1 is out of range; choose a number from 0 to",
        ),
        ("queue_enqueue_timeout_ms", None, "queue_enqueue_timeout_ms takes a whole number, not None"),
        ("request_required_acks", "1", "request_required_acks takes a whole number, not '1'"),
        ("request_timeout_ms", "5", "request_timeout_ms takes a whole number, not '5'"),
        ("max_message_size", 1.5, r"max_message_size takes a whole number, not 1\.5"),
        ("compression_codec", "foo", "compression.codec='foo' is not one of none, gzip, snappy, lz4, zstd"),
        ("compressed_topics", "topic", "compressed_topics takes a list or another iterable"),
        ("broker_list", "0:a:1", "broker_list takes a tuple of StaticBroker"),
        ("client_id", None, "client_id takes a str"),
        ("metadata_broker_list", ["a:1"], "metadata_broker_list takes a str"),
        ("encoder", None, "serializer.class is None, but messages need an encoder"),
        ("encoder", 5, "serializer.class=5 is not an encoder"),
        ("partitioner", 5, "partitioner.class=5 is not a partitioner"),
    ],
)
def test_a_wrong_option_is_an_error_with_its_name(option: str, value: Any, words: str) -> None:
    options: dict[str, Any] = {"metadata_broker_list": "127.0.0.1:1", option: value}
    with pytest.raises((ConfigurationError, TypeError), match=words):
        ClassicProducerConfig(**options)


@pytest.mark.parametrize("with_handler", [False, True])
def test_a_dropped_synchronous_producer_closes_its_connections_and_warns_once(
    recorder: Recorder, with_handler: bool
) -> None:
    brokers = (StaticBroker(1, "127.0.0.1", 1),)
    config = ClassicProducerConfig(profile="0.7", broker_list=brokers)
    producer = ClassicProducer(config, event_handler=recorder if with_handler else None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        del producer
        gc.collect()
    texts = [str(each.message) for each in caught if each.category is ResourceWarning]
    said = [text for text in texts if "ClassicProducer" in text]  # and no garbage of other tests
    assert said == ["<ClassicProducer 0.7 sync, closed> was never closed"]
    assert recorder.calls == []


def test_the_thread_is_named_after_the_client(recorder: Recorder) -> None:
    with ClassicProducer(async_config(client_id="billing"), event_handler=recorder):
        assert [thread.name for thread in send_threads()] == ["ProducerSendThread-billing"]


def test_a_send_thread_that_cannot_go_on_drops_what_it_has_and_refuses_more(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    producer = held(recorder)
    producer.send(*messages("123"))
    drain = EventQueue.drain
    failures = [MemoryError("no memory")]

    def fail_once(queue: EventQueue[Any], most: int) -> Any:
        if failures:
            raise failures.pop()
        return drain(queue, most)

    monkeypatch.setattr(EventQueue, "drain", fail_once)
    recorder.gate.set()
    recorder.wait(2)
    with pytest.raises(KafkaError, match=r"has ended because of MemoryError\('no memory'\)"):
        producer.send(*messages("4"))
    producer.close(10)
    assert recorder.calls == ["handle s", "close"]
    assert producer.dropped_count == 3
    assert not send_threads()


def test_an_event_handler_that_sends_to_the_full_queue_does_not_wait_even_if_the_thread_never_has() -> None:
    """All messages are there when the thread starts, so that it has not waited for messages before."""
    raised: list[BaseException] = []
    handling, filled = threading.Event(), threading.Event()

    class Sending(Recorder):
        def handle(self, messages_: Sequence[Any]) -> None:
            super().handle(messages_)
            if messages_[0].message == "1":
                handling.set()
                filled.wait(60)
                try:
                    producer.send(*messages("4"))
                except QueueFullError as error:
                    raised.append(error)

    handler = Sending()
    config = async_config(queue_buffering_max_messages=2, batch_num_messages=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EventQueue, "wait", lambda queue, wanted, timeout: time.sleep(min(timeout, 0.01)))
        with ClassicProducer(config, event_handler=handler) as producer:
            producer.send(*messages("1"))
            assert handling.wait(30)
            producer.send(*messages("23"))
            filled.set()
            handler.wait(2)
    assert handler.calls == ["handle 1", "handle 2", "handle 3", "close"]
    assert "message 1 of 1" in str(raised[0])
