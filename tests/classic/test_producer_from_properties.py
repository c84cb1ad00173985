"""``Producer.from_properties``: today's producer without a profile, a classic producer with one."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import pytest

from pyklient import (
    CallbackHandler,
    ClassicProducer,
    EventHandler,
    KeyedMessage,
    Producer,
    ProducerData,
    QueueItem,
)
from pyklient.classic.producer_pool import ProducerPool
from pyklient.errors import (
    BrokerConnectionError,
    ConfigurationError,
    FailedToSendMessageError,
    KafkaTimeoutError,
    NoBrokersForPartitionError,
    ProducerClosedError,
    QueueClosedError,
)
from pyklient.net.bootstrap import Bootstrap
from tests.classic.send_scripts import Recorder
from tests.classic.test_callback_handler import Hooks
from tests.servers.ports import free_port

STATIC: Final = {"broker.list": "3:127.0.0.1:1"}
BOOTSTRAP: Final = {"metadata.broker.list": "127.0.0.1:1"}

MADE: Final[list["NamedHandler"]] = []
"""The event handlers that properties have named, in the order in which they were made."""


class NamedHandler(EventHandler):
    """An event handler that properties name."""

    def init(self, properties: Mapping[str, str]) -> None:
        self.properties = dict(properties)
        self.items: list[Any] = []
        MADE.append(self)

    def handle(self, messages: Sequence[Any]) -> None:
        self.items += messages


class NamedHooks(CallbackHandler):
    """Hooks that properties name."""

    def init(self, properties: Mapping[str, str]) -> None:
        self.partition = int(properties["partition"])

    def before_enqueue(self, item: Any) -> Any:
        item.partition = self.partition
        return item


class ClosingHooks(CallbackHandler):
    """Hooks that close their producer when they get the first item."""

    producer: ClassicProducer

    def __init__(self) -> None:
        self.dropped: list[tuple[Any, BaseException]] = []

    def after_dequeuing_existing_data(self, item: Any | None) -> Sequence[Any]:
        self.producer.close()
        return super().after_dequeuing_existing_data(item)

    def on_dropped(self, items: Sequence[Any], error: BaseException) -> None:
        self.dropped += [(item.data, error) for item in items]


def test_without_a_profile_it_is_todays_producer() -> None:
    with Producer.from_properties({"bootstrap.servers": "127.0.0.1:1", "linger.ms": "7"}) as producer:
        assert type(producer) is Producer
        assert repr(producer) == "<Producer to '127.0.0.1:1'>"


def test_without_a_profile_there_are_no_handlers() -> None:
    with pytest.raises(ConfigurationError, match="pass a profile too"):
        Producer.from_properties({}, event_handler=Recorder())  # type: ignore[call-overload]


@pytest.mark.parametrize("profile", ["0.8", "0.10"])
def test_with_a_profile_it_is_a_classic_producer(profile: Any) -> None:
    recorder = Recorder()
    with Producer.from_properties(
        BOOTSTRAP | {"producer.type": "async"}, profile, event_handler=recorder
    ) as producer:
        assert type(producer) is ClassicProducer
        producer.send(KeyedMessage("topic", "1"))
    assert recorder.calls == ["handle 1", "close"]


def test_the_properties_of_0_7_name_handlers_and_their_properties() -> None:
    name = f"{__name__}:"
    given = STATIC | {
        "producer.type": "async",
        "event.handler": name + "NamedHandler",
        "event.handler.props": "a=1,b=2",
        "callback.handler": name + "NamedHooks",
        "callback.handler.props": "partition=5",
    }
    with Producer.from_properties(given, "0.7") as producer:
        producer.send(ProducerData("topic", [b"1", b"2"], key="ignored"))
    handler = MADE.pop()
    assert handler.properties == {"a": "1", "b": "2"}
    assert [(item.data, item.topic, item.partition, item.broker_id) for item in handler.items] == [
        (b"1", "topic", 5, 3),
        (b"2", "topic", 5, 3),
    ]
    with pytest.raises(QueueClosedError):
        producer.send(ProducerData("topic", b"3"))


def test_a_producer_of_0_7_that_a_hook_closes_keeps_its_brokers_until_the_queue_is_empty() -> None:
    """Nothing listens at the address, so the error tells whether a connection was tried."""
    hooks = ClosingHooks()
    given = {"broker.list": f"3:127.0.0.1:{free_port()}", "producer.type": "async", "batch.size": "1"}
    with Producer.from_properties(given, "0.7", callback_handler=hooks) as producer:
        hooks.producer = producer
        producer.send(ProducerData("topic", [b"1", b"2"]))
    assert [data for data, _ in hooks.dropped] == [b"1", b"2"]
    for _, error in hooks.dropped:
        assert "closed" not in str(error)
        assert isinstance(error.__cause__, BrokerConnectionError)


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_close_ends_the_queue_the_handler_the_hooks_the_connections_and_the_session_in_this_order(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []

    class Ending(EventHandler):
        def handle(self, messages: Sequence[Any]) -> None:
            steps.append(" ".join(["handle", *(item.data.decode() for item in messages)]))

        def close(self) -> None:
            steps.append("close handler")

    class EndingHooks(CallbackHandler):
        def last_batch_before_close(self) -> Sequence[Any]:
            return [QueueItem(b"last", "topic")]

        def close(self) -> None:
            steps.append("close hooks")

    def recorded(step: str, original: Callable[[Any], None]) -> Callable[[Any], None]:
        def close(part: Any) -> None:
            steps.append(step)
            original(part)

        return close

    monkeypatch.setattr(ProducerPool, "close", recorded("close connections", ProducerPool.close))
    monkeypatch.setattr(Bootstrap, "close", recorded("close session", Bootstrap.close))
    given = STATIC | {"producer.type": kind, "queue.time": "60000"}
    hooks = EndingHooks() if kind == "async" else None
    producer = Producer.from_properties(given, "0.7", callback_handler=hooks, event_handler=Ending())
    producer.send(ProducerData("topic", b"1"))
    producer.close()
    producer.close()
    if kind == "async":
        assert steps[:3] == ["handle 1 last", "close handler", "close hooks"]
    else:
        assert steps[:2] == ["handle 1", "close handler"]
    assert steps[3 if kind == "async" else 2 :] == ["close connections", "close session"]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_closed_producer_of_0_7_does_not_look_for_brokers(kind: str) -> None:
    given = {"zk.connect": f"127.0.0.1:{free_port()}", "producer.type": kind, "zk.read.num.retries": "0"}
    producer = Producer.from_properties(given, "0.7")
    producer.close()
    with pytest.raises(QueueClosedError if kind == "async" else ProducerClosedError):
        producer.send(ProducerData("topic", b"1"))


@pytest.mark.parametrize("handler", ["callback", "event"])
@pytest.mark.parametrize("given", [5, "json:JSONDecoder"])
def test_an_object_that_is_no_handler_is_an_error_with_the_name_of_the_property(
    handler: str, given: object
) -> None:
    with pytest.raises(ConfigurationError, match=rf"^{handler}\.handler names .*, but its class must "):
        Producer.from_properties(BOOTSTRAP | {f"{handler}.handler": given}, "0.8")


@pytest.mark.parametrize("handler", ["callback", "event"])
def test_a_handler_is_named_or_passed_and_not_both(handler: str) -> None:
    passed = {"callback": NamedHooks(), "event": Recorder()}
    named = {"callback": "NamedHooks", "event": "NamedHandler"}
    given = STATIC | {f"{handler}.handler": f"{__name__}:{named[handler]}"}
    with pytest.raises(ConfigurationError, match=f"the argument {handler}_handler both name"):
        Producer.from_properties(given, "0.7", **{f"{handler}_handler": passed[handler]})  # type: ignore[call-overload]


def test_row_35_what_before_sending_data_returns_is_what_the_default_handler_sends() -> None:
    """Nothing listens at the address, so the error names what would have been sent."""

    class Changing(Hooks):
        def before_sending_data(self, items: Sequence[Any]) -> Sequence[Any]:
            return [*items[:1], KeyedMessage("topic", b"added")]

    recorder = Recorder()
    hooks = Changing(recorder)
    unsent: list[Any] = []
    hooks.on_dropped = lambda items, error: unsent.extend(items)  # type: ignore[method-assign]
    address = {"metadata.broker.list": f"127.0.0.1:{free_port()}"}
    given = address | {"producer.type": "async", "message.send.max.retries": "0", "retry.backoff.ms": "1"}
    with Producer.from_properties(given, "0.8", callback_handler=hooks) as producer:
        producer.send(KeyedMessage("topic", b"1"), KeyedMessage("topic", b"2"))
    assert [item.message for item in unsent] == [b"1", b"added"]
    assert producer.dropped_count == 2


def test_close_counts_the_batch_that_is_being_sent_and_keeps_the_cause_of_its_failure() -> None:
    hooks = Hooks(Recorder())
    given = {
        "metadata.broker.list": f"127.0.0.1:{free_port()}",
        "producer.type": "async",
        "batch.num.messages": "1",
        "retry.backoff.ms": "60000",
        "serializer.class": "kafka.serializer.StringEncoder",
    }
    producer = Producer.from_properties(given, "0.8", callback_handler=hooks)
    producer.send(KeyedMessage("topic", "1"))
    with pytest.raises(KafkaTimeoutError, match=r"not send all queued messages in time: 1 of them was dropp"):
        producer.close(0.5)
    assert producer.dropped_count == 1
    assert "because the producer was closed; the last attempt failed: " in hooks.dropped[0]
    assert "no broker has given the metadata" in hooks.dropped[0]


@pytest.mark.parametrize(
    ("returned", "logged"),
    [
        (
            None,
            "Wrong.before_sending_data returned None, but it must return a list of KeyedMessages; 1 message",
        ),
        (
            ["text"],
            "Wrong.before_sending_data returned a list with 'text', but it must return a list of Keyed",
        ),
        (KeyError("hook"), "Wrong.before_sending_data failed"),
    ],
)
def test_a_hook_before_sending_that_fails_drops_the_batch_and_is_named_in_the_log(
    returned: Any, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Wrong(Hooks):
        def before_sending_data(self, items: Sequence[Any]) -> Sequence[Any]:
            if isinstance(returned, Exception):
                raise returned
            return returned  # type: ignore[no-any-return]  # it returns what it must not

    with Producer.from_properties(
        BOOTSTRAP | {"producer.type": "async"}, "0.8", callback_handler=Wrong(Recorder())
    ) as producer:
        producer.send(KeyedMessage("topic", b"1"))
    assert producer.dropped_count == 1
    assert logged in caplog.text
    [record] = [each for each in caplog.records if "1 message was dropped" in each.getMessage()]
    assert (record.exc_info is not None) is isinstance(returned, Exception)


@pytest.mark.parametrize("producer_type", ["sync", "async"])
def test_each_attempt_to_reach_a_broker_that_is_down_logs_one_line(
    producer_type: str, caplog: pytest.LogCaptureFixture
) -> None:
    given = {"metadata.broker.list": f"127.0.0.1:{free_port()}", "producer.type": producer_type}
    with (
        caplog.at_level("INFO", "pyklient"),
        suppress(FailedToSendMessageError),
        Producer.from_properties(given | {"retry.backoff.ms": "1"}, "0.8") as producer,
    ):
        producer.send(KeyedMessage("topic", b"1"))
    lines = [each.getMessage() for each in caplog.records]
    assert [line.startswith("1 message was not sent: no broker has given") for line in lines[:4]] == 4 * [
        True
    ]
    assert len(lines) == (4 if producer_type == "sync" else 5), lines
    assert "Traceback" not in caplog.text


def test_row_41_an_async_encoder_that_fails_drops_one_message_and_tells_of_it() -> None:
    hooks = Hooks(Recorder())
    given = BOOTSTRAP | {"producer.type": "async", "message.send.max.retries": "0", "retry.backoff.ms": "1"}
    with Producer.from_properties(given, "0.8", callback_handler=hooks) as producer:
        producer.send(KeyedMessage("topic", "text"))
    assert len(hooks.dropped) == 1
    assert hooks.dropped[0].startswith("text: TypeError(")
    assert producer.dropped_count == 1


def test_a_producer_whose_broker_is_down_fails_and_closes() -> None:
    port = free_port()
    sync = Producer.from_properties(
        {"metadata.broker.list": f"127.0.0.1:{port}", "message.send.max.retries": "1"}, "0.8"
    )
    with sync, pytest.raises(FailedToSendMessageError) as raised:
        sync.send(KeyedMessage("topic", b"1"))
    assert [message.message for message in raised.value.unsent] == [b"1"]
    zookeeper = Producer.from_properties(
        {"zk.connect": f"127.0.0.1:{port}", "zk.read.num.retries": "0", "zk.sessiontimeout.ms": "300"}, "0.7"
    )
    with zookeeper, pytest.raises(NoBrokersForPartitionError):
        zookeeper.send(ProducerData("topic", b"1"))
