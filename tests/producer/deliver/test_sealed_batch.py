"""Batches in the format and the size that the broker accepts."""

import re
from typing import Any

import pytest

from pyklient.error_codes import ErrorCode
from pyklient.errors import BrokerError, DeliveryError, MessageTooLargeError
from pyklient.protocol.messages import REQUESTS, InitProducerIdRequest, ProduceRequest
from tests.net.scripted import HANG_UP
from tests.producer.script import IN_ONE_BATCH, TOPIC, LoseAnswer, ProduceBroker, Refuse, numbers, producing

pytestmark = pytest.mark.both_kernels


def test_a_batch_too_large_for_the_broker_is_split_until_it_fits(broker: ProduceBroker) -> None:
    broker.largest = 3_000
    with producing(broker) as producer:
        sent = [producer.send(TOPIC, b"%050d" % number) for number in range(500)]
        assert [delivery.result(30).offset for delivery in sent] == list(range(500))
        broker.seen.clear()
        producer.send_many(TOPIC, (b"%050d" % number for number in range(500, 1_000))).result(30)
        assert all(one.batch.size <= 3_000 for one in broker.seen), "what was learned is forgotten"
    assert broker.stored[0] == [b"%050d" % number for number in range(1_000)]


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_a_compressed_batch_is_split_too(broker: ProduceBroker, codec: str) -> None:
    broker.largest = 500
    with producing(broker, compression_type=codec) as producer:
        sent = [producer.send(TOPIC, b"%050d" % number) for number in range(500)]
        assert [delivery.result(30).offset for delivery in sent] == list(range(500))
    assert broker.stored[0] == [b"%050d" % number for number in range(500)]


def test_a_single_record_too_large_for_the_broker_fails_alone(broker: ProduceBroker) -> None:
    broker.largest = 1_000
    with producing(broker) as producer:
        sent = [producer.send(TOPIC, bytes(2_000) if number == 7 else b"x") for number in range(20)]
        error = sent[7].exception(30)
        assert isinstance(error, MessageTooLargeError)
        sentence = (
            rf"{TOPIC}-0: the broker rejected a record of [\d,]+ bytes; raise max.message.bytes of the topic"
        )
        assert re.match(sentence, str(error))
        assert str(error).count("MESSAGE_TOO_LARGE") == 1
        assert "larger than" not in str(error)
        assert isinstance(error.__cause__, BrokerError)
        assert all(delivery.exception(30) is None for delivery in sent if delivery is not sent[7])
    assert broker.stored[0] == [b"x"] * 19


@pytest.mark.parametrize("version", range(13))
def test_records_go_in_the_format_that_the_brokers_version_takes(version: int) -> None:
    versions = {key: request.versions for key, request in REQUESTS.items()}
    versions[ProduceRequest.api_key] = (0, version)
    if version < 3:
        del versions[InitProducerIdRequest.api_key]
    with ProduceBroker(versions=versions) as broker:
        with producing(broker, compression_type="gzip" if version % 2 else "none") as producer:
            sent = [producer.send(TOPIC, value, key=b"k", timestamp_ms=17) for value in numbers(5)]
            assert [delivery.result(30).offset for delivery in sent] == list(range(5))
        assert broker.stored[0] == numbers(5)
        assert {one.batch.magic for one in broker.seen} == {2 if version >= 3 else 1 if version == 2 else 0}


@pytest.mark.parametrize("instead", [HANG_UP, ErrorCode.REQUEST_TIMED_OUT], ids=["hung-up", "timed-out"])
def test_what_may_have_been_stored_whole_is_not_stored_again_in_halves(
    broker: ProduceBroker, instead: Any
) -> None:
    def store_and_take_no_more(request: ProduceRequest) -> Any:
        broker.faults.append(lambda _request: LoseAnswer(ErrorCode.MESSAGE_TOO_LARGE))
        return LoseAnswer(instead)

    broker.faults.append(store_and_take_no_more)
    with producing(broker, **IN_ONE_BATCH) as producer:
        failed = [producer.send(TOPIC, b"%d" % number) for number in range(4)]
        with pytest.raises(DeliveryError, match="4 records"):
            producer.flush(60)
        assert all(isinstance(delivery.exception(0), BrokerError) for delivery in failed)
        producer.send(TOPIC, b"next")
        producer.flush(60)
    assert broker.stored[0] == [b"0", b"1", b"2", b"3", b"next"]


def test_what_has_certainly_not_been_stored_is_sent_in_halves_where_it_turns_out_too_large(
    broker: ProduceBroker,
) -> None:
    broker.faults.extend([Refuse(ErrorCode.NOT_ENOUGH_REPLICAS), Refuse(ErrorCode.MESSAGE_TOO_LARGE)])
    with producing(broker, **IN_ONE_BATCH) as producer:
        sent = [producer.send(TOPIC, b"%d" % number) for number in range(4)]
        producer.flush(60)
        assert [delivery.result(0).offset for delivery in sent] == list(range(4))
    assert [one.values for one in broker.seen] == [numbers(4)] * 2 + [numbers(4)[:2], numbers(4)[2:]]
