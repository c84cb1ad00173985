"""Dead-letter topics and retry topics: the copies, their headers, and when a failed message is done."""

import threading
import time
import uuid
from collections.abc import Callable
from itertools import islice
from typing import Any

import pytest

from pyklient import ConsumerConnector, KafkaError, Message, Producer, read
from pyklient.broker import Broker
from pyklient.errors import ConfigurationError
from pyklient.handlers import DeadLetterTopic, RetryTopic
from pyklient.serialization import encode_json


def new_name() -> str:
    return f"t{uuid.uuid4().hex[:10]}"


def only(broker: Broker, topic: str) -> Message:
    """Return the only message of *topic*."""
    (message,) = read(broker.bootstrap_servers, topic)
    return message


def raised(error: Exception) -> Exception:
    """Return *error* with a traceback."""
    try:
        raise error
    except Exception as caught:
        return caught


def failed(topic: str, **fields: object) -> Message:
    headers = (("trace", b"1"), ("empty", None))
    facts = {"key": b"ann", "value": b"1 book", "headers": headers, **fields}
    return Message(topic, 3, 41, 1_700_000_000_000, 0, facts["key"], facts["value"], headers)


def test_a_dead_letter_has_the_message_and_the_error(broker: Broker, producer: Producer) -> None:
    topic = new_name()
    DeadLetterTopic(producer, topic)(failed("orders"), raised(LookupError("no account")))
    copy = only(broker, topic)
    assert (copy.key, copy.value, copy.headers[:2]) == (b"ann", b"1 book", (("trace", b"1"), ("empty", None)))
    headers = dict(copy.headers[2:])
    stacktrace = headers.pop("__pyklient.errors.stacktrace")
    assert stacktrace is not None
    assert stacktrace.endswith(b"LookupError: no account\n")
    assert headers == {
        "__pyklient.errors.topic": b"orders",
        "__pyklient.errors.partition": b"3",
        "__pyklient.errors.offset": b"41",
        "__pyklient.errors.timestamp": b"1700000000000",
        "__pyklient.errors.exception": b"builtins.LookupError",
        "__pyklient.errors.message": b"no account",
    }


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("no file \udcff"), b"no file ?"),
        (ValueError("x" * 300_000), b"x" * 8_000),
        (MuteError(), b"<its text cannot be shown: str() raised RuntimeError>"),
    ],
    ids=["surrogate", "long", "mute"],
)
def test_the_text_of_an_error_never_prevents_a_dead_letter(
    broker: Broker, producer: Producer, error: Exception, text: bytes
) -> None:
    topic = new_name()
    DeadLetterTopic(producer, topic)(failed("orders"), raised(error))
    headers = dict(only(broker, topic).headers)
    assert headers["__pyklient.errors.message"] == text
    assert len(headers["__pyklient.errors.stacktrace"] or b"") <= 8_000


def test_wrong_arguments_are_noticed_before_a_message_fails(producer: Producer) -> None:
    wrong: Any = "localhost:9092"
    with pytest.raises(TypeError, match="producer must be a Producer, not 'localhost:9092'"):
        DeadLetterTopic(wrong, "dead")
    with pytest.raises(TypeError, match="producer must be a Producer, not 'localhost:9092'"):
        RetryTopic(wrong, "retry", delay=1, attempts=1, then=print)
    with pytest.raises(TypeError, match="'then' must be a DeadLetterTopic or a function"):
        RetryTopic(producer, "retry", delay=1, attempts=1, then=wrong)


@pytest.mark.parametrize("option", ["value_encoder", "key_encoder"])
def test_a_producer_with_encoders_is_noticed_before_a_message_fails(option: str) -> None:
    encoders: dict[str, Any] = {option: encode_json}
    with (
        Producer("localhost:1", **encoders) as encoding,
        pytest.raises(ConfigurationError, match="pass a producer without encoders"),
    ):
        DeadLetterTopic(encoding, "dead")


def test_a_coroutine_function_is_no_handler(producer: Producer) -> None:
    async def handle_later(*_: object) -> None:
        """A callback that a program passes by mistake."""

    with pytest.raises(TypeError, match=r"^then is a coroutine function"):
        RetryTopic(producer, "retry", delay=1, attempts=1, then=handle_later)
    retry = RetryTopic(producer, "retry", delay=1, attempts=1, then=print)
    with pytest.raises(TypeError, match=r"^handler is a coroutine function"):
        retry.handler(handle_later)


def test_messages_without_key_and_value_have_dead_letters_too(broker: Broker, producer: Producer) -> None:
    topic = new_name()
    DeadLetterTopic(producer, topic)(failed("orders", key=None, value=None), LookupError())
    copy = only(broker, topic)
    assert (copy.key, copy.value) == (None, None)


def test_a_decoded_message_cannot_be_copied(producer: Producer) -> None:
    with pytest.raises(TypeError, match="because its value is dict and not bytes"):
        DeadLetterTopic(producer, new_name())(failed("orders", value={}), LookupError())


def test_an_error_of_the_producer_is_raised_and_the_message_is_not_committed(broker: Broker) -> None:
    topic, group = new_name(), new_name()
    with Producer(broker.bootstrap_servers) as producer:
        producer.send(topic, bytes(100)).result(30)

    def handle_all() -> None:
        small = Producer(broker.bootstrap_servers, max_request_size=100)
        with (
            small,
            ConsumerConnector(
                broker.bootstrap_servers, group_id=group, auto_offset_reset="earliest"
            ) as connector,
        ):
            dead_letters = DeadLetterTopic(small, new_name())
            for message in connector.stream(topic):
                dead_letters(message, LookupError())

    for _ in range(2):
        with pytest.raises(KafkaError, match="max_request_size"):
            handle_all()


class Times:
    """A handler that notes when it was called, and fails a number of times."""

    def __init__(self, failures: int) -> None:
        self.times: list[float] = []
        self._failures = failures

    def __call__(self, message: Message) -> None:
        self.times.append(time.monotonic())
        if len(self.times) <= self._failures:
            raise LookupError(f"failure {len(self.times)}")


def handle(
    broker: Broker,
    topic: str,
    count: int,
    handler: Callable[[Message], object],
    on_error: Callable[[Message, Exception], object],
) -> list[Message]:
    """Handle the first *count* messages of *topic*, and return them."""
    with ConsumerConnector(broker.bootstrap_servers, auto_offset_reset="earliest") as connector:
        messages = []
        for message in islice(connector.stream(topic), count):
            messages.append(message)
            try:
                handler(message)
            except LookupError as error:
                on_error(message, error)
        return messages


def test_a_message_is_handled_again_when_it_is_due(broker: Broker, producer: Producer) -> None:
    orders, retries, dead = new_name(), new_name(), new_name()
    producer.send(orders, b"1 book", key=b"ann").result(30)
    retry = RetryTopic(producer, retries, delay=0.3, attempts=3, then=DeadLetterTopic(producer, dead))
    charge = Times(failures=2)
    handle(broker, orders, 1, charge, retry)
    copies = handle(broker, retries, 2, retry.handler(charge), retry)
    first, second, third = charge.times
    assert second - first >= 0.29
    assert third - second >= 0.29
    for attempt, copy in enumerate(copies, 1):
        headers = dict(copy.headers)
        assert (copy.key, copy.value) == (b"ann", b"1 book")
        assert headers["__pyklient.retry.attempt"] == b"%d" % attempt
        assert headers["__pyklient.errors.topic"] == orders.encode(), "where the first copy was made from"
        assert headers["__pyklient.errors.offset"] == b"0"
        assert headers["__pyklient.errors.message"] == b"failure %d" % attempt
        assert len(headers) == len(copy.headers), "no header twice"


def test_a_message_that_fails_too_often_is_given_to_the_last_resort(
    broker: Broker, producer: Producer
) -> None:
    orders, retries, dead = new_name(), new_name(), new_name()
    producer.send(orders, b"1 book").result(30)
    retry = RetryTopic(producer, retries, delay=0, attempts=2, then=DeadLetterTopic(producer, dead))
    charge = Times(failures=9)
    handle(broker, orders, 1, charge, retry)
    handle(broker, retries, 2, retry.handler(charge), retry)
    assert len(charge.times) == 3
    headers = dict(only(broker, dead).headers)
    assert headers["__pyklient.errors.topic"] == orders.encode()
    assert headers["__pyklient.errors.message"] == b"failure 3"
    assert "__pyklient.retry.attempt" not in headers


def test_a_header_of_another_retry_topic_does_not_count(broker: Broker, producer: Producer) -> None:
    orders, retries = new_name(), new_name()
    producer.send(orders, b"1", headers=[("__pyklient.retry.attempt", b"9")]).result(30)
    retry = RetryTopic(producer, retries, delay=0, attempts=2, then=print)
    handle(broker, orders, 1, Times(failures=1), retry)
    assert dict(only(broker, retries).headers)["__pyklient.retry.attempt"] == b"1"


@pytest.mark.parametrize("due", [b"99999999999999999", b"soon", b"\xff", b"9" * 5000])
def test_no_header_makes_a_handler_wait_longer_than_the_delay(producer: Producer, due: bytes) -> None:
    retry = RetryTopic(producer, "retries", delay=0.05, attempts=2, then=print)
    message = Message("retries", 0, 0, 0, 0, None, b"", (("__pyklient.retry.due", due),))
    done = threading.Event()
    begun = time.monotonic()
    retry.handler(lambda _: done.set())(message)
    assert done.is_set()
    assert time.monotonic() - begun < 30


def test_wrong_arguments_are_named(producer: Producer) -> None:
    with pytest.raises(ConfigurationError, match="not a valid name of a topic"):
        DeadLetterTopic(producer, "orders dead")
    with pytest.raises(ConfigurationError, match="attempts"):
        RetryTopic(producer, "retries", delay=1, attempts=0, then=print)
    with pytest.raises(ConfigurationError, match="delay=-1 is negative"):
        RetryTopic(producer, "retries", delay=-1, attempts=1, then=print)
    with pytest.raises(TypeError, match="delay takes a number of seconds"):
        RetryTopic(producer, "retries", delay="1", attempts=1, then=print)  # type: ignore[arg-type]  # the mistake that this test makes
