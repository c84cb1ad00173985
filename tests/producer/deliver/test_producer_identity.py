"""Producer ids: requested if the broker has them, not used otherwise, and with a new epoch when necessary."""

import logging

import pytest

from pyklient.error_codes import ErrorCode
from pyklient.errors import BrokerError, UnsupportedVersionError
from pyklient.protocol.messages import REQUESTS, InitProducerIdRequest, InitProducerIdResponse, ProduceRequest
from tests.producer.script import (
    ONE_BY_ONE,
    TOPIC,
    ProduceBroker,
    Refuse,
    identities,
    numbers,
    producing,
    wait_until,
)


@pytest.mark.parametrize(
    "code",
    [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.UNKNOWN_PRODUCER_ID],
)
def test_a_producer_that_the_broker_has_forgotten_begins_a_new_epoch(
    broker: ProduceBroker, code: int
) -> None:
    with producing(broker, **ONE_BY_ONE) as producer:
        producer.send(TOPIC, b"0").result(30)
        broker.faults.append(Refuse(code))
        producer.send(TOPIC, b"1").result(30)
        producer.send(TOPIC, b"2").result(30)
    assert broker.stored[0] == numbers(3)
    assert [(epoch, sequence) for _, epoch, sequence in identities(broker.seen)] == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
    ]


def test_a_broker_without_producer_ids_is_served_without(
    caplog: pytest.LogCaptureFixture,
) -> None:
    versions = {key: request.versions for key, request in REQUESTS.items() if key != 22}
    with ProduceBroker(versions=versions) as broker:
        with caplog.at_level(logging.INFO, "pyklient.producer"), producing(broker) as producer:
            assert producer.send(TOPIC, b"x").result(30).offset == 0
        assert identities(broker.seen) == [(-1, -1, -1)]
        assert "idempotence is off" in caplog.text
        assert "Upgrade the brokers to Kafka 0.11 or later" in caplog.text
        assert "Allow idempotence" not in caplog.text
        with (
            producing(broker, enable_idempotence=True) as producer,
            pytest.raises(
                UnsupportedVersionError, match=r"enable_idempotence=True .*Kafka 0\.11 or later; if you want"
            ),
        ):
            producer.send(TOPIC, b"x")


def test_a_topic_of_an_old_format_is_served_without_producer_ids(broker: ProduceBroker) -> None:
    broker.old_format = True
    with producing(broker, **ONE_BY_ONE) as producer:
        sent = [producer.send(TOPIC, value) for value in numbers(10)]
        assert [delivery.result(30).offset for delivery in sent] == list(range(10))
    assert broker.stored[0] == numbers(10)
    assert broker.seen[-1].producer_id == -1


def test_a_producer_that_is_denied_ids_goes_on_with_a_warning_unless_they_were_asked_for(
    broker: ProduceBroker, caplog: pytest.LogCaptureFixture
) -> None:
    broker.on(
        InitProducerIdRequest,
        lambda _: InitProducerIdResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    )
    with producing(broker) as producer:
        assert producer.send(TOPIC, b"x").result(30).offset == 0
    ours = [record for record in caplog.records if record.name == "pyklient.producer"]
    (warning,) = [record for record in ours if record.levelno == logging.WARNING]
    assert "idempotence is off" in warning.getMessage()
    assert "CLUSTER_AUTHORIZATION_FAILED" in warning.getMessage()
    assert "Allow idempotence on the brokers, or set enable_idempotence=False" in warning.getMessage()
    with producing(broker, enable_idempotence=True) as producer:
        error = producer.send(TOPIC, b"x").exception(30)
        assert isinstance(error, BrokerError)
        assert error.name == "CLUSTER_AUTHORIZATION_FAILED"


def test_a_producer_id_is_asked_for_until_there_is_one(broker: ProduceBroker) -> None:
    answers = iter(
        [
            InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE),
            InitProducerIdResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        ]
    )
    broker.on(
        InitProducerIdRequest,
        lambda _: next(answers, InitProducerIdResponse(producer_id=7, producer_epoch=3)),
    )
    with producing(broker) as producer:
        assert producer.send(TOPIC, b"x").result(30).offset == 0
    assert identities(broker.seen) == [(7, 3, 0)]


@pytest.mark.parametrize("acks", [0, 1])
def test_fewer_acks_mean_no_producer_id(broker: ProduceBroker, acks: int) -> None:
    with producing(broker, acks=acks) as producer:
        stored = producer.send(TOPIC, b"x").result(30)
        assert stored.offset == (0 if acks else -1)
        wait_until(lambda: len(broker.stored[0]) == 1)
    assert identities(broker.seen) == [(-1, -1, -1)]
    assert not broker.count(InitProducerIdRequest)
    assert [request.acks for request in broker.requests if isinstance(request, ProduceRequest)] == [acks]
