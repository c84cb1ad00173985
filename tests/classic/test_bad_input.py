"""Wrong arguments and properties of the classic producers: each is an error that names what is wrong."""

from collections.abc import Sequence
from typing import Any

import pytest

from pyklient import (
    CallbackHandler,
    ClassicProducerConfig,
    EventHandler,
    KeyedMessage,
    Producer,
    ProducerData,
    ProducerRequest,
    QueueItem,
    SyncProducer,
)
from pyklient.classic.encoders import StringEncoder
from pyklient.errors import (
    ConfigurationError,
    FailedToSendMessageError,
    KafkaError,
    NoBrokersForPartitionError,
)
from pyklient.protocol.messages import MetadataRequest
from tests.classic.scripted_cluster import Script, ScriptedCluster
from tests.net.scripted import ScriptedBroker, metadata_of

NOWHERE = "127.0.0.1:1"


@pytest.mark.parametrize("encoding", [5, None, "", "hex", "rot13", "\0", "\ud800", "no-such-encoding"])
def test_an_encoding_that_does_not_encode_text_is_an_error_before_the_first_message(encoding: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^serializer\.encoding=.* is not the name of an encoding"):
        StringEncoder(encoding)


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("1:a:1,1:b:2", "broker.list names broker 1 twice"),
        ("-1:a:1", "broker.list: the id of '-1:a:1'=-1 is out of range"),
        ("99999999999:a:1", "broker.list: the id of '99999999999:a:1'=99999999999 is out of range"),
        ("0:a:0", "broker.list: the port of '0:a:0'=0 is out of range"),
        ("0:a:65536", "broker.list: the port of '0:a:65536'=65536 is out of range"),
        ("0: :9", "broker.list: '0: :9' is not of the form id:host:port"),
    ],
)
def test_a_wrong_list_of_brokers_is_an_error_that_quotes_it(written: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        Producer.from_properties({"broker.list": written}, "0.7")


def test_bytes_are_no_partitioner_although_they_have_a_method_of_that_name() -> None:
    with pytest.raises(ConfigurationError, match="b'x' is not a partitioner"):
        Producer.from_properties({"metadata.broker.list": NOWHERE, "partitioner.class": b"x"}, "0.8")


@pytest.mark.parametrize("host", ["\ud800", "x" * 64, "a..b"])
def test_a_host_of_zookeeper_that_cannot_be_the_name_of_a_host_is_an_error_at_once(host: str) -> None:
    with pytest.raises(ConfigurationError):
        Producer.from_properties({"zk.connect": host}, "0.7")


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ((5, [b"a"]), TypeError, "topic takes a str, not 5"),
        (("\ud800", [b"a"]), ConfigurationError, "cannot be encoded as UTF-8"),
        (("t", b"abc"), TypeError, "messages takes a list or another iterable, not b'abc'"),
        (("t", "abc"), TypeError, "messages takes a list or another iterable, not 'abc'"),
        (("t", None), TypeError, "messages takes a list or another iterable, not None"),
        (("t", ["a"]), TypeError, "messages and keys for topic 't' must be bytes or None"),
        (("t", [b"a"], "0"), TypeError, "partition takes a whole number, not '0'"),
        (("t", [b"a"], True), TypeError, "partition takes a whole number, not True"),
        (("t", [b"a"], -2), ConfigurationError, "partition=-2 is out of range"),
        (("t", [b"a"], 2**40), ConfigurationError, "partition=1099511627776 is out of range"),
    ],
)
def test_wrong_arguments_of_a_sync_producer_are_errors_that_name_them(
    arguments: Any, error: type[Exception], words: str
) -> None:
    with ScriptedCluster(Script(name="a broker", batches=[])) as cluster:
        host, _, port = cluster.address.rpartition(":")
        with SyncProducer(host, int(port), broker_id=1) as producer, pytest.raises(error, match=words):
            producer.send(*arguments)
        assert not [event for event in cluster.events if isinstance(event[0], int)]


@pytest.mark.parametrize(
    ("requests", "words"),
    [
        (5, "requests takes a list or another iterable, not 5"),
        ([("t", 0, [b"a"])], "multi_send takes a list of ProducerRequests, not of tuple"),
        (ProducerRequest("t", 0, [b"a"]), "multi_send takes a list of ProducerRequests, not of str"),
        ([ProducerRequest("t", 0, b"a")], "the messages of a ProducerRequest must be a list, not bytes"),  # type: ignore[arg-type]
        ([ProducerRequest("t", 0, [b"a"], 5)], "the keys of a ProducerRequest must be a list, not int"),  # type: ignore[arg-type]
        ([ProducerRequest("t", 0, [b"a"], [])], "has 1 message, but 0 keys"),
    ],
)
def test_wrong_requests_of_a_sync_producer_are_errors_that_name_them(requests: Any, words: str) -> None:
    with SyncProducer("127.0.0.1", 1) as producer, pytest.raises((TypeError, KafkaError), match=words):
        producer.multi_send(requests)


def test_a_hook_that_makes_an_item_without_a_topic_drops_only_this_item() -> None:
    class Wrong(CallbackHandler):
        def after_dequeuing_existing_data(self, item: Any | None) -> Sequence[Any]:
            if item is None or item.data != b"2":
                return super().after_dequeuing_existing_data(item)
            no_topic: Any = None
            return [QueueItem(item.data, no_topic)]

    class Keeping(EventHandler):
        def __init__(self) -> None:
            self.data: list[bytes] = []

        def handle(self, messages: Sequence[Any]) -> None:
            self.data += [item.data for item in messages]

    kept = Keeping()
    given = {"broker.list": f"1:{NOWHERE}", "producer.type": "async"}
    with Producer.from_properties(given, "0.7", callback_handler=Wrong(), event_handler=kept) as producer:
        producer.send(ProducerData("t", [b"1", b"2", b"3"]))
    assert kept.data == [b"1", b"3"]
    assert producer.dropped_count == 1


def test_messages_for_a_name_that_cannot_be_a_topic_are_an_error_that_names_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with ScriptedCluster(Script(name="a broker", batches=[])) as cluster:
        given = {"metadata.broker.list": cluster.address, "message.send.max.retries": "0"}
        with Producer.from_properties(given, "0.8") as producer:
            producer.send(KeyedMessage("t", b"before"))
            with pytest.raises(FailedToSendMessageError, match="cannot be encoded as UTF-8") as caught:
                producer.send(KeyedMessage("\ud800", b"wrong"))
            assert [message.message for message in caught.value.unsent] == [b"wrong"]
            producer.send(KeyedMessage("t", b"after"))
            sent = [each.records for _, _, topics in cluster.produced(2) for each in topics["t"]]
    assert sent == [((None, b"before"),), ((None, b"after"),)]
    assert caplog.text.encode()  # A log may be a file of UTF-8, which cannot hold such a name as it is.


@pytest.mark.parametrize(
    ("broker_id", "error_code", "words"),
    [
        (5, 0, r"the cluster has no broker of this id \(brokers: 1\); correct the id"),
        (1, 17, r"cannot get the partitions of topic 'a b': .*INVALID_TOPIC_EXCEPTION"),
        (1, 0, "send to another broker"),
    ],
)
def test_a_broker_that_leads_nothing_is_an_error_with_the_reason(
    broker_id: int, error_code: int, words: str
) -> None:
    with ScriptedBroker() as broker:
        topic = metadata_of([]).MetadataResponseTopic(name="a b", error_code=error_code)
        broker.on(MetadataRequest, lambda request: metadata_of([broker], [topic]))
        config = ClassicProducerConfig(metadata_broker_list=broker.address)
        with (
            SyncProducer(broker.host, broker.port, config, broker_id=broker_id) as producer,
            pytest.raises(NoBrokersForPartitionError, match=words),
        ):
            producer.send("a b", [b"a"])
