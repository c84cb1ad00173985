"""What the default event handler tells of failures: each names what has failed, and nothing hangs."""

import threading
import time
from dataclasses import replace
from typing import Any

import pytest

from pyklient import ClassicProducerConfig, DefaultEncoder, KeyedMessage, StringEncoder
from pyklient.classic.default_event_handler import DefaultEventHandler
from pyklient.errors import ConfigurationError, FailedToSendMessageError, InvalidPartitionError
from pyklient.protocol.messages import ProduceRequest
from tests.classic.scripted_cluster import NOT_LEADER, Script, ScriptedCluster
from tests.net.scripted import SILENCE, Addressed
from tests.servers.process import wait_until

SCRIPT = Script(name="a broker", batches=[])
REFUSING = Script(name="no leader", batches=[], answers=[{0: NOT_LEADER, 1: NOT_LEADER}])


def handler_of(address: str, **options: Any) -> DefaultEventHandler:
    settings: dict[str, Any] = {"retry_backoff_ms": 1, "message_send_max_retries": 1, **options}
    return DefaultEventHandler(ClassicProducerConfig(metadata_broker_list=address, **settings))


class Returning:
    """A partitioner and an encoder that returns one thing, or raises it."""

    def __init__(self, returned: Any) -> None:
        self._returned = returned

    def partition(self, key: Any, partition_count: int, /) -> Any:
        return self.encode(key)

    def encode(self, value: Any, /) -> Any:
        if isinstance(self._returned, Exception):
            raise self._returned
        return self._returned


def test_without_a_broker_the_messages_are_reported_after_all_retries() -> None:
    handler = handler_of(Addressed(1).address, message_send_max_retries=3)
    messages = [KeyedMessage("t", b"a"), KeyedMessage("t", b"b", key=b"k")]
    with pytest.raises(
        FailedToSendMessageError, match=r"2 messages .* after 3 retries; .* metadata of 't'"
    ) as caught:
        handler.handle(messages)
    assert caught.value.unsent == messages
    handler.close()


def test_the_error_has_the_messages_as_they_were_before_the_encoder_and_the_reason() -> None:
    with ScriptedCluster(REFUSING) as cluster:
        handler = handler_of(cluster.address, request_required_acks=1, encoder=StringEncoder())
        messages = [KeyedMessage("t", "a", key="k"), KeyedMessage("t", "b", key="k", part_key=3)]
        with pytest.raises(FailedToSendMessageError, match=r"cannot produce to t-\d.*NOT_LEADER") as caught:
            handler.handle(messages)
        handler.close()
    assert sorted(caught.value.unsent, key=lambda message: message.message) == messages
    assert all(isinstance(each, KeyedMessage) and each in messages for each in caught.value.unsent)


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (RuntimeError("oh"), "partitioner Returning failed for a key of topic t: RuntimeError: oh"),
        (2, "partitioner Returning returned 2 .* from 0 to 1"),
        (-1, "returned -1"),
        (None, "returned None"),
        ("1", "returned '1'"),
        (True, "returned True"),
    ],
)
def test_a_partitioner_that_fails_is_named(returned: Any, said: str) -> None:
    with ScriptedCluster(SCRIPT) as cluster:
        handler = handler_of(cluster.address, partitioner=Returning(returned))
        with pytest.raises(FailedToSendMessageError, match=said) as caught:
            handler.handle([KeyedMessage("t", b"a", key=b"k")])
        assert isinstance(caught.value.__cause__, InvalidPartitionError)
        handler.close()


@pytest.mark.parametrize(
    ("returned", "error", "said"),
    [
        (ValueError("oh"), ValueError, "oh"),
        ("text", TypeError, "the encoder Returning returned str, but it must return bytes or None"),
        (1, TypeError, "returned int"),
    ],
)
def test_row_41_an_encoder_that_fails_is_named(returned: Any, error: type[Exception], said: str) -> None:
    with ScriptedCluster(SCRIPT) as cluster:
        handler = handler_of(cluster.address, encoder=Returning(returned))
        with pytest.raises(error, match=said) as caught:
            handler.handle([KeyedMessage("t", b"a")])
        assert caught.value.__notes__ == ["while the producer encoded a message for topic t"]
        handler.close()
        assert not cluster.events


class Exiting:
    """A partitioner that returns its key, until it is called a third time: then it ends its thread."""

    calls = 0

    def partition(self, key: Any, partition_count: int, /) -> int:
        self.calls += 1
        if self.calls > 2:
            raise SystemExit("oh")
        return int(key)


def test_a_message_is_dropped_once_and_only_if_it_is_not_confirmed_even_if_a_partitioner_exits() -> None:
    refused, confirmed = (KeyedMessage("t", b"%d" % each, part_key=each) for each in (0, 1))
    with ScriptedCluster(replace(REFUSING, answers=[{0: NOT_LEADER}])) as cluster:
        handler = handler_of(
            cluster.address, producer_type="async", request_required_acks=1, partitioner=Exiting()
        )
        with pytest.raises(FailedToSendMessageError, match=r"^1 message was not sent: SystemExit") as caught:
            handler.handle([refused, confirmed, KeyedMessage("t", "no bytes")])
        handler.close()
    assert caught.value.unsent == [refused]


def test_a_broker_that_does_not_answer_takes_no_longer_than_the_time_out() -> None:
    with ScriptedCluster(SCRIPT) as cluster:
        cluster.nodes[0].on(ProduceRequest, lambda request: SILENCE)
        handler = handler_of(
            cluster.address, request_required_acks=1, request_timeout_ms=200, message_send_max_retries=0
        )
        began = time.monotonic()
        with pytest.raises(FailedToSendMessageError, match=r"no response|did not answer|0\.2 s"):
            handler.handle([KeyedMessage("t", b"a")])
        assert time.monotonic() - began < 20
        handler.close()


def test_close_ends_a_batch_that_waits_for_its_retry() -> None:
    with ScriptedCluster(REFUSING) as cluster:
        handler = handler_of(cluster.address, request_required_acks=1, retry_backoff_ms=60_000)
        closing = threading.Timer(0.1, handler.close)
        closing.start()
        with pytest.raises(Exception, match=r"closed|after 1 retries"):
            handler.handle([KeyedMessage("t", b"a")])
        closing.join()


class Numbered:
    """A partitioner whose keys are the numbers of the partitions."""

    def partition(self, key: Any, partition_count: int, /) -> int:
        return int(key)


def test_the_error_of_an_interrupted_batch_has_only_the_messages_that_are_not_confirmed() -> None:
    script = replace(SCRIPT, leaders=[{"t": [1, 2]}])
    with ScriptedCluster(script) as cluster:
        asked = threading.Event()

        def stay_silent(request: ProduceRequest) -> Any:
            asked.set()
            return SILENCE

        cluster.nodes[1].on(ProduceRequest, stay_silent)
        handler = handler_of(cluster.address, request_required_acks=1, partitioner=Numbered())

        def interrupt() -> None:
            asked.wait(10)
            handler.interrupt()

        interrupting = threading.Thread(target=interrupt)
        interrupting.start()
        confirmed, waiting = KeyedMessage("t", b"a", key=b"0"), KeyedMessage("t", b"b", key=b"1")
        with pytest.raises(FailedToSendMessageError, match="because the producer was closed") as caught:
            handler.handle([confirmed, waiting])
        interrupting.join()
    assert caught.value.unsent == [waiting]


class Upper(DefaultEncoder):
    """A DefaultEncoder that changes what it encodes."""

    def encode(self, value: Any, /) -> bytes:
        return bytes(value).upper()


def test_a_subclass_of_the_default_encoder_encodes() -> None:
    with ScriptedCluster(SCRIPT) as cluster:
        handler = handler_of(cluster.address, encoder=Upper())
        handler.handle([KeyedMessage("t", b"a")])
        ((_, _, sent),) = cluster.produced(1)
        handler.close()
    assert [each.records for each in sent["t"]] == [((None, b"A"),)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "metadata.broker.list is missing"),
        ({"metadata_broker_list": "h", "producer_type": "later"}, "producer.type='later' is neither"),
        ({"metadata_broker_list": "h", "request_required_acks": 2}, "request.required.acks=2 is not one of"),
        (
            {"metadata_broker_list": "h", "batch_num_messages": 20_000},
            "larger than queue.buffering.max.messages",
        ),
    ],
)
def test_row_32_contradictions_are_errors(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        ClassicProducerConfig(**options)


def test_a_keyed_message_needs_a_topic_and_its_partition_key_is_its_key() -> None:
    nothing: Any = None
    with pytest.raises(TypeError, match="the topic of a KeyedMessage must be a str"):
        KeyedMessage(nothing, b"a")
    assert KeyedMessage("t", b"a", key="k").partition_key == "k"
    assert KeyedMessage("t", b"a", key="k", part_key="p").partition_key == "p"
    assert KeyedMessage("t", b"a") == KeyedMessage("t", b"a") != KeyedMessage("t", b"b")
    assert (
        repr(KeyedMessage("t", b"a", key="k", part_key=1)) == "KeyedMessage('t', b'a', key='k', part_key=1)"
    )


def test_a_leader_that_hangs_up_instead_of_confirming_is_asked_for_again() -> None:
    script = replace(SCRIPT, leaders=[{"t": [1]}, {"t": [2]}], answers=["hang up", "ok"])
    with ScriptedCluster(script) as cluster:
        handler = handler_of(cluster.address, topic_metadata_refresh_interval_ms=-1)

        def reached_broker_2() -> bool:
            handler.handle([KeyedMessage("t", b"a")])
            return any(event[0] == 2 for event in cluster.events)

        wait_until(reached_broker_2, 60, "a request to the new leader")
        handler.close()
        first, *following = [node for node, _, _ in cluster.produced(1)]
    assert first == 1
    assert following.count(1) == 0
