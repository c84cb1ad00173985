"""The metadata of topics: what is missing for a first record is named soon, and leaders that move are
found."""

import threading
import time
from typing import Any

import pytest

from pyklient.error_codes import ErrorCode
from pyklient.errors import (
    BrokerConnectionError,
    BrokerError,
    ConfigurationError,
    KafkaError,
    KafkaTimeoutError,
    UnsupportedVersionError,
)
from pyklient.kernel import Delivery
from pyklient.producer.producer import Producer
from pyklient.protocol.messages import REQUESTS, MetadataRequest, ProduceRequest
from tests.net.scripted import Addressed
from tests.producer.script import IN_ONE_BATCH, TOPIC, ProduceBroker, Refuse, producing, wait_until


def refusal(producer: Producer, topic: str = TOPIC) -> KafkaError:
    """Return the error that a ``send`` raises in time."""
    started = time.monotonic()
    with pytest.raises(KafkaError) as caught:
        producer.send(topic, b"x")
    assert time.monotonic() - started < 20
    return caught.value


def test_a_topic_that_does_not_exist_is_named(broker: ProduceBroker) -> None:
    with producing(broker, max_block_ms=2_000) as producer:
        error = refusal(producer, "nowhere")
    assert isinstance(error, BrokerError)
    assert error.name == "UNKNOWN_TOPIC_OR_PARTITION"
    assert "'nowhere' does not exist" in str(error)


def test_a_topic_without_a_leader_is_told_from_one_that_does_not_exist(broker: ProduceBroker) -> None:
    broker.leaders[0] = -1
    with producing(broker, max_block_ms=2_000) as producer:
        error = refusal(producer)
    assert isinstance(error, BrokerError)
    assert "leader" in str(error)
    assert TOPIC in str(error)


@pytest.mark.parametrize("code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_TOPIC_EXCEPTION])
def test_what_waiting_does_not_cure_is_raised_at_once(broker: ProduceBroker, code: int) -> None:
    broker.known_topics["forbidden"] = code
    with producing(broker, max_block_ms=60_000) as producer:
        error = refusal(producer, "forbidden")
    assert isinstance(error, BrokerError)
    assert error.code == code


def test_bootstrap_servers_that_cannot_be_reached_are_named() -> None:
    nobody = Addressed(1)
    producer = Producer(nobody.address, max_block_ms=2_000)
    error = refusal(producer)
    producer.close()
    assert isinstance(error, KafkaTimeoutError | BrokerConnectionError)
    assert nobody.address in str(error)
    assert "refused" in str(error)


def test_an_advertised_address_that_cannot_be_reached_is_named(broker: ProduceBroker) -> None:
    nobody = Addressed(2)
    broker.peers.append(nobody)
    broker.leaders[0] = 2
    with producing(broker, max_block_ms=2_000) as producer:
        error = refusal(producer)
    assert isinstance(error, BrokerConnectionError)
    assert nobody.address in str(error)
    assert "advertised.listeners" in str(error)


def test_a_topic_that_appears_while_its_first_record_waits_is_used(broker: ProduceBroker) -> None:
    with producing(broker) as producer:
        sent: list[Delivery] = []
        thread = threading.Thread(target=lambda: sent.append(producer.send("soon", b"x")), daemon=True)
        thread.start()
        wait_until(lambda: broker.count(MetadataRequest) >= 2)
        assert not sent
        broker.known_topics["soon"] = 0
        thread.join(30)
        assert sent[0].result(30).offset == 0
    asked = [request for request in broker.requests if isinstance(request, MetadataRequest)]
    assert asked[0].allow_auto_topic_creation


def test_one_leader_that_can_be_reached_is_enough(broker: ProduceBroker) -> None:
    broker.partitions = 2
    broker.peers.append(Addressed(2))
    broker.leaders[0] = 2
    with producing(broker, max_block_ms=20_000) as producer:
        assert producer.send(TOPIC, b"x", partition=1).result(30).partition == 1


def test_a_send_with_no_time_to_wait_fails_and_the_next_finds_the_topic_known(broker: ProduceBroker) -> None:
    with producing(broker, max_block_ms=0) as producer:
        assert isinstance(refusal(producer), KafkaTimeoutError)
        wait_until(lambda: producer._accumulator.appender.partition_count(TOPIC) == 1)
        assert producer.send(TOPIC, b"x").result(30).offset == 0


@pytest.fixture
def two(broker: ProduceBroker) -> ProduceBroker:
    """A broker with the topic ``clicks`` of two partitions."""
    broker.partitions = 2
    return broker


def test_a_partition_that_does_not_exist_is_refused_after_a_look(two: ProduceBroker) -> None:
    with producing(two) as producer:
        producer.send(TOPIC, b"x", partition=1).result(30)
        for partition in (2, -1):
            with pytest.raises(ConfigurationError, match=f"partition {partition} of topic 'clicks'"):
                producer.send(TOPIC, b"x", partition=partition)
        two.partitions = 3
        assert producer.send(TOPIC, b"x", partition=2).result(30).partition == 2
        text: Any = "1"
        with pytest.raises(TypeError, match="partition"):
            producer.send(TOPIC, b"x", partition=text)


def test_a_topic_that_grows_is_noticed(two: ProduceBroker) -> None:
    with producing(two, metadata_max_age_ms=50) as producer:
        producer.send(TOPIC, b"x").result(30)
        two.partitions = 8
        wait_until(lambda: producer._accumulator.appender.partition_count(TOPIC) == 8)
        partitions = {producer.send(TOPIC, b"x", key=b"%d" % n).result(30).partition for n in range(60)}
    assert partitions == set(range(8))


def test_a_topic_that_is_deleted_is_asked_for_again(broker: ProduceBroker) -> None:
    with producing(broker, metadata_max_age_ms=50, max_block_ms=2_000) as producer:
        producer.send(TOPIC, b"x").result(30)
        broker.known_topics[TOPIC] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        wait_until(lambda: producer._accumulator.appender.partition_count(TOPIC) == 0)
        error = refusal(producer)
        assert "does not exist" in str(error)
        broker.known_topics[TOPIC] = 0
        assert producer.send(TOPIC, b"y").result(30).offset == 1


def test_records_survive_a_broker_that_does_not_know_their_topic_for_a_moment(broker: ProduceBroker) -> None:
    """A broker that has just started may not know a topic. No ``send`` is called any more, so only the
    records under way can cause a refresh."""
    with producing(broker, retry_backoff_ms=500, retry_backoff_max_ms=500) as producer:
        producer.send(TOPIC, b"x").result(30)
        broker.known_topics[TOPIC] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        broker.faults.append(Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER))
        delivery = producer.send(TOPIC, b"y")
        wait_until(lambda: producer._accumulator.appender.partition_count(TOPIC) == 0)
        assert not delivery.done()
        broker.known_topics[TOPIC] = 0
        assert delivery.result(30).offset == 1


def test_records_without_a_key_go_where_a_leader_is(two: ProduceBroker) -> None:
    two.leaders[0] = -1
    with producing(two, linger_ms=0) as producer:
        partitions = [producer.send(TOPIC, b"x").result(30).partition for _ in range(20)]
    assert set(partitions) == {1}


def test_records_for_a_partition_without_a_leader_wait_for_one(two: ProduceBroker) -> None:
    two.leaders[0] = -1
    with producing(two, linger_ms=0) as producer:
        patient = producer.send(TOPIC, b"x", partition=0)
        assert producer.send(TOPIC, b"x", partition=1).result(30).offset == 0
        assert not patient.done()
        two.leaders[0] = 1
        assert patient.result(30).offset == 0


def test_a_broker_that_cannot_be_reached_holds_up_nobody_else(broker: ProduceBroker) -> None:
    broker.partitions = 2
    with ProduceBroker(node_id=2) as other:
        other.partitions = 2
        broker.peers.append(other)
        broker.leaders[0] = 2
        with producing(broker, linger_ms=0) as producer:
            assert producer.send(TOPIC, b"x", partition=0).result(30).offset == 0
            other.close()
            held = producer.send(TOPIC, b"y", partition=0)
            for number in range(20):
                assert producer.send(TOPIC, b"z", partition=1).result(30).offset == number
            assert not held.done()
            broker.leaders[0] = 1
            assert held.result(30).offset == 0


def test_a_frozen_broker_holds_up_nobody_else(broker: ProduceBroker) -> None:
    """The frozen broker accepts no bytes, so writing to it blocks."""
    frozen = threading.Event()
    broker.partitions = 2
    with ProduceBroker(node_id=2) as other:
        broker.peers.append(other)
        broker.leaders[0] = 2
        other.faults.append(lambda request: frozen.wait(60) and None)
        with producing(broker, linger_ms=0) as producer:
            value = bytes(900_000)
            stuck = [producer.send(TOPIC, value, partition=0) for _ in range(20)]
            wait_until(lambda: len(other.seen) == 0 and bool(other.requests))
            started = time.monotonic()
            for number in range(5):
                assert producer.send(TOPIC, b"z", partition=1).result(30).offset == number
            assert time.monotonic() - started < 20
            frozen.set()
            assert [delivery.result(20).offset for delivery in stuck] == list(range(20))


def test_a_new_leader_is_found_by_asking_for_metadata() -> None:
    with ProduceBroker(node_id=1) as old, ProduceBroker(node_id=2) as new:
        old.peers = [new]
        old.faults.append(
            lambda request: old.leaders.update({0: 2}) or Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        )
        with producing(old) as producer:
            before = old.count(MetadataRequest)
            assert producer.send(TOPIC, b"x").result(30).offset == 0
        assert old.count(MetadataRequest) > before
        assert new.stored[0] == [b"x"]
        assert old.stored[0] == []


def test_headers_are_refused_where_the_broker_has_none() -> None:
    versions = {key: request.versions for key, request in REQUESTS.items()}
    versions[ProduceRequest.api_key] = (0, 2)
    with (
        ProduceBroker(versions=versions) as broker,
        producing(broker) as producer,
        pytest.raises(UnsupportedVersionError, match="headers"),
    ):
        producer.send(TOPIC, b"x", headers=[("a", b"b")])


@pytest.mark.parametrize("topic", ["bad\udcff", "x" * 40_000, "a\nb"])
def test_a_name_that_no_topic_can_have_harms_no_other_topic(broker: ProduceBroker, topic: str) -> None:
    with producing(broker, max_block_ms=0) as producer:
        with pytest.raises(ConfigurationError, match="is not a valid name of a topic"):
            producer.send(topic, b"x")

        def taken() -> bool:
            try:
                return producer.send(TOPIC, b"x").result(30).offset >= 0
            except KafkaTimeoutError:
                return False

        wait_until(taken)


def asked_for(broker: ProduceBroker) -> list[set[str]]:
    """Return the topics of each request for metadata."""
    questions = [message for message in broker.requests if isinstance(message, MetadataRequest)]
    return [{topic.name or "" for topic in question.topics or ()} for question in questions]


# The scripted broker tells partitions apart, not topics: with idempotence one other topic is all it bears.
@pytest.mark.parametrize(("acks", "count"), [("all", 1), (1, 20)])
def test_topics_that_are_not_sent_to_any_more_are_forgotten_and_found_again(
    two: ProduceBroker, acks: str | int, count: int
) -> None:
    others = [f"other-{number}" for number in range(count)]
    two.known_topics.update(dict.fromkeys(others, 0))
    options: dict[str, Any] = {"metadata_max_idle_ms": 200, "metadata_max_age_ms": 20, "linger_ms": 0}
    with producing(two, acks=acks, **options) as producer:
        sender, appender = producer._sender, producer._accumulator.appender
        for topic in others:
            producer.send(topic, topic.encode(), partition=1).result(30)

        def only_one_is_left() -> bool:
            producer.send(TOPIC, b"in use", partition=0).result(30)
            return appender.topics() == [TOPIC]

        wait_until(only_one_is_left)
        asked = len(asked_for(two))
        wait_until(lambda: only_one_is_left() and len(asked_for(two)) > asked + 3)
        assert asked_for(two)[-1] == {TOPIC}
        assert list(producer._client.metadata.topics) == [TOPIC]
        assert list(sender._queues) == [(TOPIC, 0)]
        assert list(sender._topics.last_used) == [TOPIC]
        again = producer.send(others[0], b"again", partition=1).result(30)
        assert again.offset == count
    assert two.stored[1] == [*(topic.encode() for topic in others), b"again"]


def test_a_topic_with_records_under_way_is_not_forgotten(two: ProduceBroker) -> None:
    options: dict[str, Any] = {"metadata_max_idle_ms": 1, "metadata_max_age_ms": 20, **IN_ONE_BATCH}
    with producing(two, **options) as producer:
        waiting = producer.send(TOPIC, b"x")
        asked = len(asked_for(two))
        wait_until(lambda: len(asked_for(two)) > asked + 5)
        assert all(topics == {TOPIC} for topics in asked_for(two)[asked + 1 :])
        producer.flush(60)
        assert waiting.result(0).offset == 0
