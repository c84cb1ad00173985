"""What fails and may pass is sent again: in order, nothing lost, nothing twice."""

import logging
import threading
import time

import pytest

from pyklient.errors import (
    BrokerError,
    KafkaError,
    KafkaTimeoutError,
    MessageTooLargeError,
    UnsupportedVersionError,
)
from pyklient.protocol.messages import (
    REQUESTS,
    InitProducerIdRequest,
    InitProducerIdResponse,
    MetadataRequest,
    ProduceRequest,
    ProduceResponse,
)
from pyklient.protocol.records.kernel import Delivery
from pyklient.protocol.schema import Message
from tests.net.scripted import HANG_UP, SILENCE
from tests.producer.script import TOPIC, LoseAnswer, ProduceBroker, Refuse, Seen, producing, wait_until

NOT_LEADER, TIMED_OUT, NOT_ENOUGH_REPLICAS, CORRUPT = 6, 7, 19, 2
OUT_OF_ORDER, DUPLICATE, FENCED, UNKNOWN_PRODUCER = 45, 46, 47, 59
INVALID_RECORD, NOT_ALLOWED = 87, 29
ONE_BY_ONE = {"batch_size": 0, "linger_ms": 0}


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


def stamps(seen: list[Seen]) -> list[tuple[int, int, int]]:
    return [(one.producer_id, one.epoch, one.sequence) for one in seen]


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Refuse(NOT_LEADER), id="not-leader"),
        pytest.param(Refuse(TIMED_OUT), id="timed-out"),
        pytest.param(Refuse(NOT_ENOUGH_REPLICAS), id="not-enough-replicas"),
        pytest.param(Refuse(CORRUPT), id="corrupt"),
        pytest.param(LoseAnswer(TIMED_OUT), id="stored-but-timed-out"),
        pytest.param(LoseAnswer(HANG_UP), id="stored-but-hung-up"),
        pytest.param(lambda request: LoseAnswer(HANG_UP), id="hung-up"),
        pytest.param(lambda request: Refuse(OUT_OF_ORDER), id="out-of-order"),
    ],
)
@pytest.mark.parametrize("at", [0, 1, 4])
def test_many_in_flight_stay_in_order_through_a_failure(
    broker: ProduceBroker, fault: Refuse | LoseAnswer, at: int
) -> None:
    broker.faults.extend([None] * at + [fault])
    with producing(broker, **ONE_BY_ONE) as producer:
        sent = [producer.send(TOPIC, value) for value in numbers(40)]
        assert [delivery.result(10).offset for delivery in sent] == list(range(40))
    assert broker.stored[0] == numbers(40)
    assert all(one.producer_id >= 0 for one in broker.seen)


def test_what_may_have_been_stored_goes_again_with_the_same_stamp_and_bytes(broker: ProduceBroker) -> None:
    broker.faults.append(LoseAnswer(HANG_UP))
    with producing(broker) as producer:
        assert producer.send(TOPIC, b"x", key=b"k", headers=[("h", None)]).result(10).offset == 0
    first, second = broker.seen
    assert bytes(first.batch.buffer) == bytes(second.batch.buffer)
    assert broker.stored[0] == [b"x"]


def test_a_silent_broker_is_given_up_and_asked_again(broker: ProduceBroker) -> None:
    broker.faults.append(LoseAnswer(SILENCE))
    with producing(broker, request_timeout_ms=200, delivery_timeout_ms=5_000) as producer:
        assert producer.send(TOPIC, b"x").result(10).offset == 0
    assert broker.stored[0] == [b"x"]
    assert len(broker.seen) == 2


def test_a_duplicate_that_the_broker_remembers_no_more_counts_as_stored(broker: ProduceBroker) -> None:
    broker.faults.append(Refuse(DUPLICATE))
    with producing(broker) as producer:
        assert producer.send(TOPIC, b"x").result(10).offset == -1


@pytest.mark.parametrize("code", [OUT_OF_ORDER, FENCED, UNKNOWN_PRODUCER])
def test_a_producer_that_the_broker_has_forgotten_begins_a_new_epoch(
    broker: ProduceBroker, code: int
) -> None:
    with producing(broker, **ONE_BY_ONE) as producer:
        producer.send(TOPIC, b"0").result(10)
        broker.faults.append(Refuse(code))
        producer.send(TOPIC, b"1").result(10)
        producer.send(TOPIC, b"2").result(10)
    assert broker.stored[0] == numbers(3)
    assert [(epoch, sequence) for _, epoch, sequence in stamps(broker.seen)] == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
    ]


def test_a_record_that_is_refused_leaves_no_gap_behind_it(broker: ProduceBroker) -> None:
    broker.faults.extend([None, Refuse(INVALID_RECORD, "no key, but the topic is compacted")])
    with producing(broker, **ONE_BY_ONE) as producer:
        sent = [producer.send(TOPIC, value) for value in numbers(30)]
        error = sent[1].exception(10)
        assert isinstance(error, BrokerError)
        assert error.name == "INVALID_RECORD"
        assert "compacted" in str(error)
        others = [delivery.result(10).offset for delivery in sent if delivery is not sent[1]]
    assert others == list(range(29))
    assert broker.stored[0] == [value for value in numbers(30) if value != b"1"]


def test_a_record_in_doubt_that_fails_for_good_does_not_double_what_follows(broker: ProduceBroker) -> None:
    """The first is stored, but the broker does not say so and then refuses it. The others were stored too,
    with their answers lost, so they must keep their stamps."""
    broker.faults.extend([LoseAnswer(TIMED_OUT), LoseAnswer(TIMED_OUT), Refuse(NOT_ALLOWED)])
    with producing(broker, **ONE_BY_ONE) as producer:
        sent = [producer.send(TOPIC, value) for value in numbers(2)]
        wait_until(lambda: all(delivery.done() for delivery in sent))
        assert isinstance(sent[0].exception(10), BrokerError)
        assert sent[1].result(10).offset == 1
        assert producer.send(TOPIC, b"2").result(10).offset == 2
    assert broker.stored[0] == numbers(3)


def test_retries_are_counted_where_they_are_limited(broker: ProduceBroker) -> None:
    broker.faults.extend([Refuse(NOT_ENOUGH_REPLICAS)] * 10)
    with producing(broker, retries=2) as producer:
        error = producer.send(TOPIC, b"x").exception(10)
    assert isinstance(error, BrokerError)
    assert error.name == "NOT_ENOUGH_REPLICAS"
    assert len(broker.seen) == 3


def test_a_record_fails_at_its_delivery_time_out_and_names_the_last_failure(broker: ProduceBroker) -> None:
    broker.faults.extend([Refuse(NOT_ENOUGH_REPLICAS)] * 1000)
    with producing(broker, request_timeout_ms=100, delivery_timeout_ms=300) as producer:
        error = producer.send(TOPIC, b"x").exception(10)
        assert isinstance(error, KafkaTimeoutError)
        assert f"{TOPIC}-0" in str(error)
        assert "delivery_timeout_ms=300" in str(error)
        assert "NOT_ENOUGH_REPLICAS" in str(error)
        assert isinstance(error.__cause__, BrokerError)
        broker.faults.clear()
        producer.send(TOPIC, b"y").result(10)
    assert broker.stored[0][-1] == b"y"


def test_a_record_fails_in_time_while_its_request_is_still_unanswered(broker: ProduceBroker) -> None:
    seen_to_fail = threading.Event()

    def keep_waiting(request: ProduceRequest) -> LoseAnswer:
        seen_to_fail.wait(5)
        return LoseAnswer(HANG_UP)

    broker.faults.extend([Refuse(NOT_ENOUGH_REPLICAS), keep_waiting])
    options = {"request_timeout_ms": 400, "delivery_timeout_ms": 500, "retry_backoff_ms": 200}
    with producing(broker, linger_ms=0, **options) as producer:
        late = producer.send(TOPIC, b"x")
        assert isinstance(late.exception(10), KafkaTimeoutError)
        seen_to_fail.set()
        assert producer.send(TOPIC, b"y").result(10)
    assert broker.stored[0] == [b"x", b"y"]


def test_an_answer_that_comes_after_the_record_has_failed_changes_nothing(broker: ProduceBroker) -> None:
    seen_to_fail = threading.Event()
    broker.faults.extend([Refuse(NOT_ENOUGH_REPLICAS), lambda request: seen_to_fail.wait(5) and None])
    options = {"request_timeout_ms": 900, "delivery_timeout_ms": 1_000, "retry_backoff_ms": 300}
    with producing(broker, linger_ms=0, retry_backoff_max_ms=300, **options) as producer:
        late = producer.send(TOPIC, b"x")
        assert isinstance(late.exception(10), KafkaTimeoutError)
        seen_to_fail.set()
        assert producer.send(TOPIC, b"y").result(10).offset == 1
        assert isinstance(late.exception(0), KafkaTimeoutError)
        wait_until(lambda: producer._accumulator.appender.used == 0)
    assert broker.stored[0] == [b"x", b"y"]
    assert [(one.epoch, one.sequence) for one in broker.seen] == [(0, 0), (0, 0), (0, 1)]


def test_a_broker_that_comes_back_older_gets_the_older_format() -> None:
    new = {key: request.versions for key, request in REQUESTS.items()}
    old = {**new, ProduceRequest.api_key: (0, 2)}
    with ProduceBroker(versions=new) as broker:
        broker.faults.append(lambda request: broker._versions.update(old) or LoseAnswer(HANG_UP))
        with producing(broker, acks=1) as producer:
            producer.send(TOPIC, b"x", timestamp_ms=17).result(10)
            assert producer.send(TOPIC, b"y").result(10)
    assert [one.batch.magic for one in broker.seen] == [2, 1, 1]
    assert broker.seen[1].batch.records()[0].timestamp_ms == 17


def test_a_new_leader_is_found_by_asking_for_metadata() -> None:
    with ProduceBroker(node_id=1) as old, ProduceBroker(node_id=2) as new:
        old.peers = [new]
        old.faults.append(lambda request: old.leaders.update({0: 2}) or Refuse(NOT_LEADER))
        with producing(old) as producer:
            before = old.count(MetadataRequest)
            assert producer.send(TOPIC, b"x").result(10).offset == 0
        assert old.count(MetadataRequest) > before
        assert new.stored[0] == [b"x"]
        assert old.stored[0] == []


def test_a_batch_too_large_for_the_broker_is_split_until_it_fits(broker: ProduceBroker) -> None:
    broker.largest = 3_000
    with producing(broker) as producer:
        sent = [producer.send(TOPIC, b"%050d" % number) for number in range(500)]
        assert [delivery.result(10).offset for delivery in sent] == list(range(500))
        broker.seen.clear()
        producer.send_many(TOPIC, (b"%050d" % number for number in range(500, 1_000))).result(10)
        assert all(one.batch.size <= 3_000 for one in broker.seen), "what was learned is forgotten"
    assert broker.stored[0] == [b"%050d" % number for number in range(1_000)]


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_a_compressed_batch_is_split_too(broker: ProduceBroker, codec: str) -> None:
    broker.largest = 500
    with producing(broker, compression_type=codec) as producer:
        sent = [producer.send(TOPIC, b"%050d" % number) for number in range(500)]
        assert [delivery.result(10).offset for delivery in sent] == list(range(500))
    assert broker.stored[0] == [b"%050d" % number for number in range(500)]


def test_a_single_record_too_large_for_the_broker_fails_alone(broker: ProduceBroker) -> None:
    broker.largest = 1_000
    with producing(broker) as producer:
        sent = [producer.send(TOPIC, bytes(2_000) if number == 7 else b"x") for number in range(20)]
        error = sent[7].exception(10)
        assert isinstance(error, MessageTooLargeError)
        assert "max.message.bytes" in str(error)
        assert TOPIC in str(error)
        assert all(delivery.exception(10) is None for delivery in sent if delivery is not sent[7])
    assert broker.stored[0] == [b"x"] * 19


def test_a_broker_without_producer_ids_is_served_without(
    caplog: pytest.LogCaptureFixture,
) -> None:
    versions = {key: request.versions for key, request in REQUESTS.items() if key != 22}
    with ProduceBroker(versions=versions) as broker:
        with caplog.at_level(logging.INFO, "pyklient.producer"), producing(broker) as producer:
            assert producer.send(TOPIC, b"x").result(10).offset == 0
        assert stamps(broker.seen) == [(-1, -1, -1)]
        assert "no idempotence" in caplog.text
        with producing(broker, enable_idempotence=True) as producer:
            assert isinstance(producer.send(TOPIC, b"x").exception(10), UnsupportedVersionError)


def test_a_topic_of_an_old_format_is_served_without_producer_ids(broker: ProduceBroker) -> None:
    broker.old_format = True
    with producing(broker, **ONE_BY_ONE) as producer:
        sent = [producer.send(TOPIC, value) for value in numbers(10)]
        assert [delivery.result(10).offset for delivery in sent] == list(range(10))
    assert broker.stored[0] == numbers(10)
    assert broker.seen[-1].producer_id == -1


def test_permission_for_producer_ids_is_not_needed_unless_asked_for(broker: ProduceBroker) -> None:
    broker.on(InitProducerIdRequest, lambda _: InitProducerIdResponse(error_code=31))
    with producing(broker) as producer:
        assert producer.send(TOPIC, b"x").result(10).offset == 0
    with producing(broker, enable_idempotence=True) as producer:
        error = producer.send(TOPIC, b"x").exception(10)
        assert isinstance(error, BrokerError)
        assert error.name == "CLUSTER_AUTHORIZATION_FAILED"


def test_a_producer_id_is_asked_for_until_there_is_one(broker: ProduceBroker) -> None:
    answers = iter([InitProducerIdResponse(error_code=15), InitProducerIdResponse(error_code=14)])
    broker.on(
        InitProducerIdRequest,
        lambda _: next(answers, InitProducerIdResponse(producer_id=7, producer_epoch=3)),
    )
    with producing(broker) as producer:
        assert producer.send(TOPIC, b"x").result(10).offset == 0
    assert stamps(broker.seen) == [(7, 3, 0)]


@pytest.mark.parametrize("acks", [0, 1])
def test_fewer_acks_mean_no_producer_id(broker: ProduceBroker, acks: int) -> None:
    with producing(broker, acks=acks) as producer:
        stored = producer.send(TOPIC, b"x").result(10)
        assert stored.offset == (0 if acks else -1)
        wait_until(lambda: len(broker.stored[0]) == 1)
    assert stamps(broker.seen) == [(-1, -1, -1)]
    assert not broker.count(InitProducerIdRequest)
    assert [request.acks for request in broker.requests if isinstance(request, ProduceRequest)] == [acks]


@pytest.mark.parametrize("version", range(13))
def test_records_go_in_the_format_that_the_brokers_version_takes(version: int) -> None:
    versions = {key: request.versions for key, request in REQUESTS.items()}
    versions[ProduceRequest.api_key] = (0, version)
    if version < 3:
        del versions[InitProducerIdRequest.api_key]
    with ProduceBroker(versions=versions) as broker:
        with producing(broker, compression_type="gzip" if version % 2 else "none") as producer:
            sent = [producer.send(TOPIC, value, key=b"k", timestamp_ms=17) for value in numbers(5)]
            assert [delivery.result(10).offset for delivery in sent] == list(range(5))
        assert broker.stored[0] == numbers(5)
        assert {one.batch.magic for one in broker.seen} == {2 if version >= 3 else 1 if version == 2 else 0}


def test_headers_are_refused_where_the_broker_has_none() -> None:
    versions = {key: request.versions for key, request in REQUESTS.items()}
    versions[ProduceRequest.api_key] = (0, 2)
    with (
        ProduceBroker(versions=versions) as broker,
        producing(broker) as producer,
        pytest.raises(UnsupportedVersionError, match="headers"),
    ):
        producer.send(TOPIC, b"x", headers=[("a", b"b")])


def test_a_partition_left_out_of_an_answer_is_sent_again(broker: ProduceBroker) -> None:
    answers = iter([ProduceResponse(responses=[])])
    whole = broker._produce
    broker.on(ProduceRequest, lambda request: next(answers, None) or whole(request))
    with producing(broker) as producer:
        assert producer.send(TOPIC, b"x").result(10).offset == 0


def test_a_broker_that_asks_for_fewer_requests_gets_them(broker: ProduceBroker) -> None:
    whole = broker._produce
    times: list[float] = []

    def produce(request: ProduceRequest) -> Message:
        times.append(time.monotonic())
        answer: ProduceResponse = whole(request)
        answer.throttle_time_ms = 150
        return answer

    broker.on(ProduceRequest, produce)
    with producing(broker, linger_ms=0) as producer:
        producer.send(TOPIC, b"x").result(10)
        producer.send(TOPIC, b"y").result(10)
    assert times[1] - times[0] >= 0.15


def test_a_failure_that_does_not_pass_ends_the_record(broker: ProduceBroker) -> None:
    broker.faults.append(Refuse(NOT_ALLOWED))
    with producing(broker) as producer:
        error = producer.send(TOPIC, b"x").exception(10)
        assert isinstance(error, BrokerError)
        assert error.name == "TOPIC_AUTHORIZATION_FAILED"
    assert len(broker.seen) == 1


def test_no_more_requests_are_in_flight_than_allowed(broker: ProduceBroker) -> None:
    go_on = threading.Event()
    broker.faults.append(lambda request: go_on.wait(5) and None)
    with producing(broker, max_in_flight_requests_per_connection=2, **ONE_BY_ONE) as producer:
        sent = [producer.send(TOPIC, value) for value in numbers(10)]
        wait_until(lambda: broker.count(ProduceRequest) == 1)
        go_on.set()
        assert [delivery.result(10).offset for delivery in sent] == list(range(10))


def test_callbacks_hear_of_each_record_once_and_of_what_is_stored_in_order(broker: ProduceBroker) -> None:
    broker.faults.extend([None, Refuse(NOT_LEADER), Refuse(NOT_ALLOWED)])
    stored: list[int] = []
    failed: list[KafkaError] = []

    def hear(delivery: Delivery) -> None:
        error = delivery.exception(0)
        if error is None:
            stored.append(delivery.result(0).offset)
        else:
            failed.append(error)

    with producing(broker, **ONE_BY_ONE) as producer:
        for value in numbers(30):
            producer.send(TOPIC, value, on_delivery=hear)
        producer.flush(10)
    assert stored == list(range(29))
    assert len(failed) == 1
