"""What seldom happens: interrupts and the garbage collector at the worst moment, answers that are odd."""

import gc
import threading
import time
from typing import Any

import pytest

from pyklient.errors import BrokerError, KafkaError, KafkaTimeoutError
from pyklient.protocol.messages import ProduceRequest, ProduceResponse
from tests.net.scripted import HANG_UP, SILENCE
from tests.producer.script import TOPIC, LoseAnswer, ProduceBroker, producing, wait_until

MESSAGE_TOO_LARGE = 10


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_producer_may_be_collected_by_a_thread_that_holds_its_locks(broker: ProduceBroker) -> None:
    producer = broker.producer()
    producer.send(TOPIC, b"x").result(10)
    accumulator, thread = producer._accumulator, producer._thread
    pair: list[Any] = [producer]
    pair.append(pair)
    del producer, pair
    collected = threading.Event()

    def collect() -> None:
        with accumulator._border, accumulator.tracker.lock:
            gc.collect()
        collected.set()

    threading.Thread(target=collect, daemon=True).start()
    assert collected.wait(10)
    assert thread.join(10)


def test_a_first_send_that_was_interrupted_can_be_made_again(broker: ProduceBroker) -> None:
    with producing(broker) as producer:
        producer._thread.start(producer._sender)  # as far as Ctrl-C let it come
        assert producer.send(TOPIC, b"x").result(10).offset == 0


def test_a_frozen_broker_holds_nobody_else_up_where_no_answers_are_wanted() -> None:
    thaw = threading.Event()

    def freeze(request: ProduceRequest) -> Any:
        thaw.wait(20)
        return SILENCE

    with ProduceBroker(partitions=2) as broker, ProduceBroker(partitions=2, node_id=2) as frozen:
        broker.peers.append(frozen)
        broker.leaders[1] = frozen.node_id
        broker.on(ProduceRequest, lambda _request: SILENCE)
        frozen.on(ProduceRequest, freeze)
        with producing(broker, acks=0, linger_ms=0, request_timeout_ms=15_000) as producer:
            try:
                for _ in range(1_000):
                    producer.send(TOPIC, b"x" * 10_000, partition=1)
                    assert producer.send(TOPIC, b"x", partition=0).result(5)
            finally:
                thaw.set()


def test_timers_that_are_set_anew_do_not_pile_up_until_they_would_have_rung(broker: ProduceBroker) -> None:
    with producing(broker, linger_ms=0, delivery_timeout_ms=2**31 - 1) as producer:
        for _ in range(3_000):
            producer.send(TOPIC, b"x").result(10)
        assert len(producer._thread._timers) < 2_000


@pytest.mark.parametrize("topic", ["bad\udcff", "x" * 40_000, "a\nb"])
def test_a_name_that_no_topic_can_have_harms_no_other_topic(broker: ProduceBroker, topic: str) -> None:
    with producing(broker, max_block_ms=0) as producer:
        with pytest.raises(ValueError, match="no name that a topic can have"):
            producer.send(topic, b"x")

        def taken() -> bool:
            try:
                return producer.send(TOPIC, b"x").result(10).offset >= 0
            except KafkaTimeoutError:
                return False

        wait_until(taken)


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
    with producing(broker, linger_ms=20) as producer:
        deliveries = [producer.send(TOPIC, b"x", timestamp_ms=at) for at in (1_000, 2_000)]
        assert [delivery.result(10).timestamp_ms for delivery in deliveries] == [1_000, 2_000]


def test_what_may_have_been_stored_whole_is_not_stored_again_in_halves(broker: ProduceBroker) -> None:
    def store_and_take_no_more(request: ProduceRequest) -> Any:
        broker.faults.append(lambda _request: LoseAnswer(MESSAGE_TOO_LARGE))
        return LoseAnswer(HANG_UP)

    broker.faults.append(store_and_take_no_more)
    with producing(broker, linger_ms=20) as producer:
        failed = [producer.send(TOPIC, b"%d" % number) for number in range(4)]
        assert all(isinstance(delivery.exception(10), BrokerError) for delivery in failed)
        assert producer.send(TOPIC, b"next").result(10)
    assert broker.stored[0] == [b"0", b"1", b"2", b"3", b"next"]


def test_a_connection_that_the_client_gave_up_itself_costs_no_record(broker: ProduceBroker) -> None:
    with producing(broker, linger_ms=0, connections_max_idle_ms=1) as producer:
        until = time.monotonic() + 1
        failures: list[KafkaError | None] = []
        while time.monotonic() < until:
            failures.append(producer.send(TOPIC, b"x").exception(10))
        assert not any(failures)
