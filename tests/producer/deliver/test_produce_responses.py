"""The outcomes of records after a response, or without one: stored, sent again, or failed, and reported
once."""

import threading
from typing import Any

import pytest

from pyklient.error_codes import ErrorCode
from pyklient.errors import BrokerError, ClosedError, DeliveryError, KafkaError, KafkaTimeoutError
from pyklient.kernel import Delivery, read_records
from pyklient.protocol.messages import ProduceRequest, ProduceResponse
from pyklient.protocol.records import iter_batches
from pyklient.protocol.schema import ApiMessage
from pyklient.topic_partition import TopicPartition
from tests.net.scripted import HANG_UP
from tests.producer.script import (
    IN_ONE_BATCH,
    ONE_BY_ONE,
    TOPIC,
    LoseAnswer,
    ProduceBroker,
    Refuse,
    numbers,
    producing,
    wait_until,
)


def test_a_duplicate_that_the_broker_remembers_no_more_counts_as_stored(broker: ProduceBroker) -> None:
    broker.faults.append(Refuse(ErrorCode.DUPLICATE_SEQUENCE_NUMBER))
    with producing(broker) as producer:
        assert producer.send(TOPIC, b"x").result(30).offset == -1


def test_retries_are_counted_where_they_are_limited(broker: ProduceBroker) -> None:
    broker.faults.extend([Refuse(ErrorCode.NOT_ENOUGH_REPLICAS)] * 10)
    with producing(broker, retries=2) as producer:
        error = producer.send(TOPIC, b"x").exception(30)
    assert isinstance(error, BrokerError)
    assert error.name == "NOT_ENOUGH_REPLICAS"
    assert len(broker.seen) == 3


def test_a_record_fails_at_its_delivery_time_out_and_names_the_last_failure(broker: ProduceBroker) -> None:
    broker.faults.extend([Refuse(ErrorCode.NOT_ENOUGH_REPLICAS)] * 1000)
    with producing(broker, request_timeout_ms=1_000, delivery_timeout_ms=1_500) as producer:
        error = producer.send(TOPIC, b"x").exception(30)
        assert isinstance(error, KafkaTimeoutError)
        assert f"{TOPIC}-0" in str(error)
        assert "1 record was not confirmed within delivery_timeout_ms=1500" in str(error)
        assert "NOT_ENOUGH_REPLICAS" in str(error)
        assert isinstance(error.__cause__, BrokerError)
        broker.faults.clear()
        producer.send(TOPIC, b"y").result(30)
    assert broker.stored[0][-1] == b"y"


def test_a_record_fails_in_time_while_its_request_is_still_unanswered(broker: ProduceBroker) -> None:
    seen_to_fail = threading.Event()

    def keep_waiting(request: ProduceRequest) -> LoseAnswer:
        seen_to_fail.wait(30)
        return LoseAnswer(HANG_UP)

    broker.faults.extend([Refuse(ErrorCode.NOT_ENOUGH_REPLICAS), keep_waiting])
    # The second request is sent a second or more before the record fails, and its time is over as much later.
    options = {"request_timeout_ms": 2_900, "delivery_timeout_ms": 3_000, "retry_backoff_ms": 1_500}
    with producing(broker, linger_ms=0, retry_backoff_max_ms=1_500, **options) as producer:
        late = producer.send(TOPIC, b"x")
        assert isinstance(late.exception(30), KafkaTimeoutError)
        seen_to_fail.set()
        assert producer.send(TOPIC, b"y").result(30)
    assert broker.stored[0] == [b"x", b"y"]


def test_an_answer_that_comes_after_the_record_has_failed_changes_nothing(broker: ProduceBroker) -> None:
    seen_to_fail = threading.Event()
    broker.faults.extend(
        [Refuse(ErrorCode.NOT_ENOUGH_REPLICAS), lambda request: seen_to_fail.wait(30) and None]
    )
    # The second request is sent a second or more before the record fails, and its time is over as much later.
    options = {"request_timeout_ms": 2_900, "delivery_timeout_ms": 3_000, "retry_backoff_ms": 1_500}
    with producing(broker, linger_ms=0, retry_backoff_max_ms=1_500, **options) as producer:
        late = producer.send(TOPIC, b"x")
        assert isinstance(late.exception(30), KafkaTimeoutError)
        seen_to_fail.set()
        assert producer.send(TOPIC, b"y").result(30).offset == 1
        assert isinstance(late.exception(0), KafkaTimeoutError)
        wait_until(lambda: producer._accumulator.appender.used_memory == 0)
    assert broker.stored[0] == [b"x", b"y"]
    assert [(one.epoch, one.sequence) for one in broker.seen] == [(0, 0), (0, 0), (0, 1)]


def test_a_partition_left_out_of_an_answer_is_sent_again(broker: ProduceBroker) -> None:
    answers = iter([ProduceResponse(responses=[])])
    whole = broker._produce
    broker.on(ProduceRequest, lambda request: next(answers, None) or whole(request))
    with producing(broker) as producer:
        assert producer.send(TOPIC, b"x").result(30).offset == 0


def test_a_failure_that_does_not_pass_ends_the_record(broker: ProduceBroker) -> None:
    broker.faults.append(Refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with producing(broker) as producer:
        error = producer.send(TOPIC, b"x").exception(30)
        assert isinstance(error, BrokerError)
        assert error.name == "TOPIC_AUTHORIZATION_FAILED"
    assert len(broker.seen) == 1


def test_callbacks_hear_of_each_record_once_and_of_what_is_stored_in_order(broker: ProduceBroker) -> None:
    broker.faults.extend(
        [None, Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER), Refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
    )
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
        producer.flush(60)
    assert stored == list(range(29))
    assert len(failed) == 1


def test_a_batch_stored_by_an_earlier_attempt_keeps_its_own_timestamps(broker: ProduceBroker) -> None:
    def store_and_hang_up(request: ProduceRequest) -> Any:
        broker.faults.append(with_newest_timestamp)
        return LoseAnswer(HANG_UP)

    def with_newest_timestamp(request: ProduceRequest) -> Any:
        # Kafka answers so where it finds that it has a batch already.
        answer = ProduceResponse.TopicProduceResponse.PartitionProduceResponse(
            index=0, base_offset=0, log_append_time_ms=2_000
        )
        topic = ProduceResponse.TopicProduceResponse(name=TOPIC, partition_responses=[answer])
        return LoseAnswer(ProduceResponse(responses=[topic]))

    broker.faults.append(store_and_hang_up)
    with producing(broker, **IN_ONE_BATCH) as producer:
        deliveries = [producer.send(TOPIC, b"x", timestamp_ms=at) for at in (1_000, 2_000)]
        producer.flush(60)
        assert [delivery.result(30).timestamp_ms for delivery in deliveries] == [1_000, 2_000]


class Again:
    """Applies *fault* to the first *times* requests that contain value ``1``."""

    def __init__(self, broker: ProduceBroker, fault: Refuse | LoseAnswer, times: int) -> None:
        self._broker, self._fault, self._times = broker, fault, times
        self._whole = broker._produce

    def __call__(self, request: ProduceRequest) -> Any:
        data: Any = request.topic_data[0].partition_data[0].records
        (batch,) = iter_batches(bytes(data))
        if [record.value for record in read_records(batch)] == [b"1"] and self._times:
            self._times -= 1
            self._broker.faults.append(self._fault)
        return self._whole(request)


@pytest.mark.parametrize(
    ("fault", "options"),
    [
        pytest.param(LoseAnswer(ErrorCode.REQUEST_TIMED_OUT), {}, id="stored-but-timed-out"),
        pytest.param(LoseAnswer(HANG_UP), {}, id="stored-but-cut"),
        pytest.param(Refuse(ErrorCode.NOT_ENOUGH_REPLICAS), {}, id="refused-for-now"),
        pytest.param(
            Refuse(ErrorCode.NOT_ENOUGH_REPLICAS), {"acks": 1}, id="refused-for-now-without-idempotence"
        ),
        pytest.param(LoseAnswer(HANG_UP), {"acks": 1}, id="cut-without-idempotence"),
    ],
)
def test_callbacks_of_a_partition_keep_the_order_of_the_records_when_some_go_again(
    broker: ProduceBroker, fault: Refuse | LoseAnswer, options: dict[str, Any]
) -> None:
    heard: list[Delivery] = []
    broker.on(ProduceRequest, Again(broker, fault, 3))
    with producing(broker, **ONE_BY_ONE, **options) as producer:
        sent = [producer.send(TOPIC, value, on_delivery=heard.append) for value in numbers(30)]
        producer.flush(60)
    assert heard == sent
    assert not any(delivery.exception(0) for delivery in sent)


def test_a_record_that_fails_is_told_of_before_later_ones_that_are_stored(broker: ProduceBroker) -> None:
    heard: list[Delivery] = []
    broker.on(ProduceRequest, Again(broker, Refuse(ErrorCode.NOT_ENOUGH_REPLICAS), 1_000))
    options = {"acks": 1, "request_timeout_ms": 1_000, "delivery_timeout_ms": 1_500}
    with producing(broker, **ONE_BY_ONE, **options) as producer:
        sent = [producer.send(TOPIC, value, on_delivery=heard.append) for value in numbers(3)]
        wait_until(lambda: len(heard) == 3)
        assert heard == sent
        failures = [type(delivery.exception(0)) for delivery in sent]
    assert failures == [type(None), KafkaTimeoutError, type(None)]


def test_a_record_that_fails_for_good_is_told_of_after_an_earlier_one_that_goes_again(
    broker: ProduceBroker,
) -> None:
    heard: list[Delivery] = []
    broker.faults.extend(
        [None, Refuse(ErrorCode.NOT_ENOUGH_REPLICAS), Refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED)]
    )
    with producing(broker, acks=1, **ONE_BY_ONE) as producer:
        sent = [producer.send(TOPIC, value, on_delivery=heard.append) for value in numbers(3)]
        wait_until(lambda: len(heard) == 3)
    assert heard == sent
    assert [delivery.exception(0) is None for delivery in sent] == [True, True, False]


def test_what_is_stored_behind_one_that_goes_again_counts_as_stored_when_the_producer_closes() -> None:
    options = {"retry_backoff_ms": 60_000, "retry_backoff_max_ms": 60_000}
    with ProduceBroker(partitions=2) as broker:
        broker.on(ProduceRequest, Again(broker, Refuse(ErrorCode.NOT_ENOUGH_REPLICAS), 1_000))
        with producing(broker, acks=1, **ONE_BY_ONE, **options) as producer:
            sent = [producer.send(TOPIC, value, partition=0) for value in numbers(3)]
            wait_until(lambda: broker.stored[0] == [b"0", b"2"])
            # Answers come in order: with this one, those before it are there.
            producer.send(TOPIC, b"x", partition=1).result(30)
            assert not sent[2].done()
            producer._close(0)
            failures = [type(delivery.exception(30)) for delivery in sent]
            assert failures == [type(None), ClosedError, type(None)]
            assert producer._accumulator.appender.used_memory == 0


def test_callbacks_of_failed_batches_may_use_the_memory_of_batches_that_the_same_response_confirms() -> None:
    sent_again: list[Delivery] = []

    def send_a_larger_one(delivery: Delivery) -> None:
        if delivery.exception() is not None:
            sent_again.append(producer.send(TOPIC, bytes(60_000), partition=0))

    with ProduceBroker(2) as broker:
        store = broker._produce

        def refuse_the_first(request: ProduceRequest) -> ApiMessage:
            answer: ProduceResponse = store(request)
            for each in answer.responses[0].partition_responses:
                if each.index == 0 and len(answer.responses[0].partition_responses) == 2:
                    each.error_code = ErrorCode.INVALID_RECORD
            return answer

        broker.on(ProduceRequest, refuse_the_first)
        with producing(broker, buffer_memory=100_000, enable_idempotence=False, **IN_ONE_BATCH) as producer:
            producer.send(TOPIC, bytes(40_000), partition=0, on_delivery=send_a_larger_one)
            producer.send(TOPIC, bytes(40_000), partition=1)
            producer.flush(60)
            (delivery,) = sent_again
            producer.flush(60)
            assert delivery.exception(30) is None


def test_retries_failures_and_error_codes_are_counted_by_partition(broker: ProduceBroker) -> None:
    refused = [ErrorCode.NOT_ENOUGH_REPLICAS] * 2 + [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    broker.faults.extend([*map(Refuse, refused), Refuse(ErrorCode.INVALID_RECORD)])
    with producing(broker, **ONE_BY_ONE) as producer:
        failed = producer.send(TOPIC, b"x", partition=0)
        assert isinstance(failed.exception(30), BrokerError)
        producer.send(TOPIC, b"y", partition=0).result(30)
        found = producer.metrics()
    errors = {"NOT_ENOUGH_REPLICAS": 2, "NOT_LEADER_OR_FOLLOWER": 1, "INVALID_RECORD": 1}
    assert found.errors == found.partitions[TopicPartition(TOPIC, 0)].errors == errors
    assert (found.retried_batches, found.failed_records, found.delivered.records) == (3, 1, 1)


def test_a_batch_is_counted_once_with_its_sizes_before_and_after_compression() -> None:
    with ProduceBroker(2) as broker:
        broker.faults.append(Refuse(ErrorCode.NOT_ENOUGH_REPLICAS))
        with producing(broker, compression_type="lz4", **IN_ONE_BATCH) as producer:
            for partition in range(2):
                for _ in range(100):
                    producer.send(TOPIC, bytes(100), partition=partition)
            producer.flush(60)
            counts, found = producer._accumulator.counts, producer.metrics()
    assert found.retried_batches == 2, "each of the two batches was sent twice"
    assert (counts.sealed.batches, counts.sealed.records) == (2, 200)
    assert (counts.compressed.batches, counts.compressed.records) == (2, 200)
    assert 200 * 100 < counts.sealed.bytes < 200 * 115
    assert counts.compressed.bytes == found.delivered.bytes < counts.sealed.bytes / 10
    assert (found.queue_time.count, found.delivery_time.count) == (2, 2)


def test_what_waits_for_a_broker_is_counted_as_waiting(broker: ProduceBroker) -> None:
    go_on = threading.Event()

    def hang_up_later(request: ProduceRequest) -> Any:
        go_on.wait(60)
        return HANG_UP

    with producing(broker, **ONE_BY_ONE) as producer:
        producer.send(TOPIC, b"x").result(30)
        broker.on(ProduceRequest, hang_up_later)
        producer.send(TOPIC, b"y")
        waiting = producer.metrics()
        assert (waiting.waiting_records, waiting.waiting_batches) == (1, 1)
        assert waiting.buffer_used > 0
        go_on.set()
        with pytest.raises(DeliveryError):
            producer.close(0.1)
    after = producer.metrics()
    assert (after.waiting_records, after.failed_records, after.buffer_used) == (0, 1, 0)
