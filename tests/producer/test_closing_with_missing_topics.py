"""Closing a producer whose topic is missing: what was sent is delivered, or fails with the reason."""

import threading

import pytest

from pyklient.error_codes import ErrorCode
from pyklient.errors import BrokerError, DeliveryError, KafkaTimeoutError
from pyklient.protocol.messages import MetadataRequest
from tests.producer.script import TOPIC, ProduceBroker, Refuse, producing, wait_until

pytestmark = pytest.mark.both_kernels


def delete_topic(broker: ProduceBroker) -> None:
    broker.known_topics[TOPIC] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    broker.faults.extend([Refuse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)] * 1_000)


def test_closing_does_not_wait_for_a_topic_that_was_deleted_until_the_delivery_time_out(
    broker: ProduceBroker,
) -> None:
    options = {"request_timeout_ms": 1_000, "delivery_timeout_ms": 20_000}
    with producing(broker, linger_ms=0, **options) as producer:
        producer.send(TOPIC, b"x").result(30)
        delete_topic(broker)
        late = producer.send(TOPIC, b"y")
        with pytest.raises(DeliveryError, match="topic 'clicks' does not exist"):
            producer.close()
        error = late.exception(0)
    assert isinstance(error, BrokerError)
    assert error.name == "UNKNOWN_TOPIC_OR_PARTITION"


def test_closing_delivers_to_a_topic_that_is_missing_for_a_moment(broker: ProduceBroker) -> None:
    with producing(broker, linger_ms=0) as producer:
        producer.send(TOPIC, b"x").result(30)
        delete_topic(broker)
        late = producer.send(TOPIC, b"y")
        answered = broker.count(MetadataRequest)
        closing = threading.Thread(target=producer.close, daemon=True)
        closing.start()
        wait_until(lambda: broker.count(MetadataRequest) > answered + 3)
        broker.faults.clear()
        broker.known_topics[TOPIC] = 0
        assert late.result(30).offset == 1
        closing.join(30)


def test_a_time_out_says_that_the_topic_does_not_exist_though_another_failure_came_before(
    broker: ProduceBroker,
) -> None:
    options = {"request_timeout_ms": 1_000, "delivery_timeout_ms": 1_500}
    with producing(broker, linger_ms=0, **options) as producer:
        producer.send(TOPIC, b"x").result(30)
        broker.known_topics[TOPIC] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        broker.faults.extend([Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)] * 1_000)
        error = producer.send(TOPIC, b"y").exception(30)
    assert isinstance(error, KafkaTimeoutError)
    assert "UNKNOWN_TOPIC_OR_PARTITION" in str(error)
