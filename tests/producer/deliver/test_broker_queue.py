"""The requests to one broker that is slow, silent, unreachable, or throttles the client."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from pyklient.errors import BrokerConnectionError, BufferFullError, KafkaError, UnsupportedCodecError
from pyklient.kernel import Delivery, read_records
from pyklient.metrics.producer_counts import ProducerCounts
from pyklient.net.backoff import Backoff
from pyklient.producer.accumulate.leader_availability import LeaderAvailability
from pyklient.producer.accumulate.memory_use import MemoryUse
from pyklient.producer.deliver.broker_queue import BrokerQueue
from pyklient.producer.deliver.produce_requests import InFlightRequest, RequestOptions
from pyklient.producer.metadata_refresher import MetadataRefresher
from pyklient.producer.producer import Producer
from pyklient.producer.threads.sender_thread import SenderThread
from pyklient.protocol.messages import REQUESTS, ProduceRequest, ProduceResponse
from pyklient.protocol.schema import ApiMessage
from tests.net.scripted import HANG_UP, SILENCE
from tests.producer.holding import HoldingBroker
from tests.producer.script import ONE_BY_ONE, TOPIC, LoseAnswer, ProduceBroker, numbers, producing, wait_until

THROTTLE = 30.0
BACKOFF = 0.01


class Responses:
    """Records the outcomes of requests."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.counts = ProducerCounts(0.0)

    def apply(self, _batches: Any, _response: ProduceResponse, _node_id: int) -> None:
        self.heard.append("answered")

    def unanswered(self, _batches: Any, _error: Exception, *, in_doubt: bool) -> None:
        self.heard.append("in doubt" if in_doubt else "unsent")


class Bench:
    """A queue with two requests in flight, which have no response yet."""

    def __init__(self) -> None:
        self.responses = Responses()
        options = RequestOptions(acks=1, timeout=1.0, max_in_flight=2, max_bytes=1)
        nobody: Any = None
        responses: Any = self.responses
        backoff = Backoff(BACKOFF, BACKOFF)
        thread = SenderThread("pyklient-producer test")
        metadata = MetadataRefresher(nobody, backoff, nobody, thread, timeout=1.0, max_age=1.0)
        self.queue = BrokerQueue(
            1,
            nobody,
            options,
            backoff,
            responses,
            metadata,
            thread,
            MemoryUse(nobody, 0),
            LeaderAvailability(0),
            set(),
        )
        self.queue.in_flight = 2
        self.request = InFlightRequest({}, 0, 0, ProduceRequest(), 9, 0)

    def throttled(self) -> None:
        """Let the broker answer one request, and throttle the client."""
        self.queue._answered(self.request, ProduceResponse(throttle_time_ms=int(THROTTLE * 1000)))

    def lost_connection(self) -> None:
        """Let the other request fail before it reaches the broker."""
        self.queue._not_sent(self.request, BrokerConnectionError("cut"))


@pytest.mark.parametrize(
    "events",
    [
        pytest.param([Bench.throttled, Bench.lost_connection], id="throttled-first"),
        pytest.param([Bench.lost_connection, Bench.throttled], id="cut-first"),
    ],
)
def test_a_lost_connection_does_not_end_the_pause_that_the_broker_asked_for(
    events: list[Callable[[Bench], None]],
) -> None:
    bench = Bench()
    begin = time.monotonic()
    for event in events:
        event(bench)
    assert bench.queue.paused_until >= begin + THROTTLE
    assert bench.queue.in_flight == 0
    assert sorted(bench.responses.heard) == ["answered", "unsent"]


def test_small_requests_wait_for_no_thread_unless_something_stands_before_them_there(
    broker: ProduceBroker,
) -> None:
    go_on = threading.Event()
    values = [*numbers(3), bytes(300_000), b"4", b"5"]
    handed: list[int] = []
    with producing(broker, linger_ms=0, batch_size=0) as producer:
        producer.send(TOPIC, values[0]).result(30)
        queue = producer._sender._brokers[broker.node_id]
        wait_until(lambda: queue._done == queue._given)
        begin = queue._given
        broker.faults.append(lambda request: go_on.wait(60) and None)
        sent = []
        for value in values[1:]:
            sent.append(producer.send(TOPIC, value))
            wait_until(lambda: queue.in_flight == len(sent))
            assert producer._thread.catch_up(10), "the pass that has sent it is over"
            handed.append(queue._given)
        go_on.set()
        assert [delivery.result(30).offset for delivery in sent] == [1, 2, 3, 4, 5]
        # The large one is the worker's, and so is what comes before that has written it.
        assert handed[:3] == [begin, begin, begin + 1]
        wait_until(lambda: queue._done == queue._given)
        written = queue._given
        producer.send(TOPIC, b"6").result(30)
        assert queue._given == written
    assert broker.stored[0] == [*values, b"6"]


def test_what_the_socket_does_not_take_at_once_is_the_workers_and_the_rest_stays_behind_it(
    broker: ProduceBroker,
) -> None:
    go_on = threading.Event()
    values = [bytes([number]) * 60_000 for number in range(40)]
    with producing(broker, linger_ms=0, batch_size=0, send_buffer_bytes=4096) as producer:
        producer.send(TOPIC, b"0").result(30)
        queue = producer._sender._brokers[broker.node_id]
        broker.faults.append(lambda request: go_on.wait(60) and None)
        sent = [producer.send(TOPIC, value) for value in values]
        # With five of them on the way, and nobody who reads, the buffers of both sides are full.
        wait_until(lambda: queue.in_flight == 5 and queue._given > queue._done)
        go_on.set()
        assert [delivery.result(30).offset for delivery in sent] == list(range(1, 41))
    assert broker.stored[0] == [b"0", *values]


def test_a_silent_broker_is_given_up_and_asked_again(broker: ProduceBroker) -> None:
    broker.faults.append(LoseAnswer(SILENCE))
    with producing(broker, request_timeout_ms=1_000, delivery_timeout_ms=5_000) as producer:
        assert producer.send(TOPIC, b"x").result(30).offset == 0
    assert broker.stored[0] == [b"x"]
    assert len(broker.seen) == 2


def test_a_broker_that_comes_back_older_gets_the_older_format() -> None:
    new = {key: request.versions for key, request in REQUESTS.items()}
    old = {**new, ProduceRequest.api_key: (0, 2)}
    with ProduceBroker(versions=new) as broker:
        broker.faults.append(lambda request: broker._versions.update(old) or LoseAnswer(HANG_UP))
        with producing(broker, acks=1) as producer:
            producer.send(TOPIC, b"x", timestamp_ms=17).result(30)
            assert producer.send(TOPIC, b"y").result(30)
    assert [one.batch.magic for one in broker.seen] == [2, 1, 1]
    assert read_records(broker.seen[1].batch)[0].timestamp_ms == 17


@pytest.mark.parametrize(("newest", "accepted"), [(2, False), (6, False), (7, True)])
def test_a_broker_that_does_not_know_zstd_gets_no_batch_with_it(newest: int, accepted: bool) -> None:
    versions = {key: request.versions for key, request in REQUESTS.items()} | {0: (0, newest)}
    with ProduceBroker(versions=versions) as broker:
        with producing(broker, acks=1, compression_type="zstd") as producer:
            if accepted:
                producer.send(TOPIC, b"x").result(30)
            else:
                with pytest.raises(UnsupportedCodecError, match=r"zstd, which needs Kafka 2\.1 or later"):
                    producer.send(TOPIC, b"x")
        assert len(broker.seen) == accepted


def test_a_broker_that_stores_no_timestamps_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    versions = {key: request.versions for key, request in REQUESTS.items()} | {0: (0, 1)}
    with ProduceBroker(versions=versions) as broker, producing(broker, acks=1) as producer:
        producer.send(TOPIC, b"x").result(30)
        broker.drop_connections()
        producer.send(TOPIC, b"y").result(30)
    said = [message for message in caplog.messages if "stores no timestamps" in message]
    assert len(said) == 1


def test_a_broker_that_asks_for_fewer_requests_gets_them(broker: ProduceBroker) -> None:
    whole = broker._produce
    times: list[float] = []

    def produce(request: ProduceRequest) -> ApiMessage:
        times.append(time.monotonic())
        answer: ProduceResponse = whole(request)
        answer.throttle_time_ms = 150
        return answer

    broker.on(ProduceRequest, produce)
    with producing(broker, linger_ms=0) as producer:
        producer.send(TOPIC, b"x").result(30)
        producer.send(TOPIC, b"y").result(30)
    assert times[1] - times[0] >= 0.15


@pytest.mark.parametrize(("limit", "together"), [(1, 1), (3_500, 3), (1 << 20, 4)])
def test_a_request_takes_batches_of_as_many_partitions_as_fit(limit: int, together: int) -> None:
    sizes: list[int] = []
    with ProduceBroker(4) as broker:
        whole = broker._produce

        def produce(request: ProduceRequest) -> ApiMessage:
            sizes.append(sum(len(topic.partition_data) for topic in request.topic_data))
            answer: ApiMessage = whole(request)
            return answer

        broker.on(ProduceRequest, produce)
        options: dict[str, Any] = {"linger_ms": 60_000, "max_in_flight_requests_per_connection": 1}
        with producing(broker, produce_max_bytes=limit, **options) as producer:
            for partition in range(4):
                producer.send(TOPIC, bytes(1_000), partition=partition)
            producer.flush(60)
    assert max(sizes) == together
    assert sum(sizes) == 4


def _wait_for_unanswered(broker: HoldingBroker, count: int) -> None:
    wait_until(lambda: broker.unanswered == count)


@pytest.mark.parametrize("most", [1, 2, 5])
def test_as_many_requests_are_in_flight_as_allowed_and_no_more(most: int) -> None:
    options: dict[str, Any] = {"acks": 1, "enable_idempotence": False, **ONE_BY_ONE}
    values = numbers(12)
    with HoldingBroker() as broker:
        with producing(broker, max_in_flight_requests_per_connection=most, **options) as producer:
            producer.send(TOPIC, b"first").result(30)
            broker.hold()
            sent = [producer.send(TOPIC, value) for value in values]
            for left in range(len(sent), 0, -1):
                _wait_for_unanswered(broker, min(most, left))
                broker.answer_one()
            assert [delivery.result(30).offset for delivery in sent] == list(range(1, 13))
        assert broker.most_unanswered == most
        assert broker.stored[0] == [b"first", *values]


def test_a_frozen_broker_holds_nobody_else_up_where_no_answers_are_wanted() -> None:
    thaw = threading.Event()

    def freeze(request: ProduceRequest) -> Any:
        thaw.wait(60)
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
                    assert producer.send(TOPIC, b"x", partition=0).result(30)
            finally:
                thaw.set()


def test_a_connection_that_the_client_gave_up_itself_costs_no_record(broker: ProduceBroker) -> None:
    with producing(broker, linger_ms=0, connections_max_idle_ms=1) as producer:
        until = time.monotonic() + 1
        failures: list[KafkaError | None] = []
        while time.monotonic() < until:
            failures.append(producer.send(TOPIC, b"x").exception(30))
        assert not any(failures)


def test_a_full_broker_that_has_left_the_cluster_does_not_keep_batches_from_the_others() -> None:
    with ProduceBroker(partitions=2) as broker, ProduceBroker(partitions=2, node_id=2) as gone:
        gone.on(ProduceRequest, lambda request: SILENCE)
        broker.peers.append(gone)
        broker.leaders[1] = gone.node_id
        with producing(broker, max_in_flight_requests_per_connection=1, **ONE_BY_ONE) as producer:
            producer.send(TOPIC, value=b"0", partition=1)
            wait_until(lambda: gone.count(ProduceRequest) == 1)
            broker.peers.clear()
            broker.leaders.clear()
            producer._thread.post(producer._sender._metadata.want)
            producer.send(TOPIC, value=b"1", partition=0).result(30)
            wait_until(lambda: len(producer._client.metadata.nodes) == 1)
            producer.send(TOPIC, value=b"2", partition=0).result(30)
            assert not producer._sender.is_full()


def test_a_second_request_waits_and_its_batch_grows() -> None:
    with HoldingBroker() as broker, broker.producer(linger_ms=0, buffer_memory=100_000) as producer:
        _send_and_hold(broker, producer, 30_000)
        assert _offsets_of_growing_batch(broker, producer, in_flight=1) == [2, 3, 4]


@pytest.mark.parametrize(("memory", "first", "second"), [(200_000, 2_000, 30_000), (1_000_000, 40_000, 1)])
def test_a_second_request_does_not_wait_behind_a_small_one_or_while_little_memory_is_used(
    memory: int, first: int, second: int
) -> None:
    with HoldingBroker() as broker, broker.producer(linger_ms=0, buffer_memory=memory) as producer:
        _send_and_hold(broker, producer, first)
        producer.send(TOPIC, bytes(second))
        _wait_for_unanswered(broker, 2)
        broker.let_go()


def test_a_second_request_does_not_wait_if_little_memory_is_left() -> None:
    with HoldingBroker() as broker, broker.producer(linger_ms=0, buffer_memory=100_000) as producer:
        _send_and_hold(broker, producer, 60_000)
        producer.send(TOPIC, bytes(30_000))
        _wait_for_unanswered(broker, 2)
        broker.let_go()


def test_if_a_thread_has_waited_for_memory_the_third_request_waits_and_its_batch_grows() -> None:
    options = {"linger_ms": 0, "buffer_memory": 100_000, "max_block_ms": 100}
    with HoldingBroker() as broker, broker.producer(**options) as producer:
        _send_and_hold(broker, producer, 30_000)
        with pytest.raises(BufferFullError):
            producer.send(TOPIC, bytes(70_000))
        producer.send(TOPIC, bytes(30_000))
        _wait_for_unanswered(broker, 2)
        assert _offsets_of_growing_batch(broker, producer, in_flight=2) == [3, 4, 5]


def test_a_full_batch_waits_for_no_response() -> None:
    options = {"linger_ms": 60_000, "buffer_memory": 120_000, "batch_size": 30_000}
    with HoldingBroker() as broker, broker.producer(**options) as producer:
        first = producer.send(TOPIC, b"first")
        producer.flush(60)
        assert first.done()
        broker.hold()
        for count in (1, 2, 3):
            producer.send(TOPIC, bytes(30_000))
            _wait_for_unanswered(broker, count)
        broker.let_go()
        producer.flush(60)


def test_a_batch_that_becomes_full_in_line_waits_for_no_response() -> None:
    options = {"linger_ms": 0, "buffer_memory": 300_000, "batch_size": 31_000}
    with HoldingBroker() as broker, broker.producer(**options) as producer:
        _send_and_hold(broker, producer, 40_000)
        assert _waits_in_line(broker, producer, b"second")
        producer.send(TOPIC, bytes(31_000), partition=0)  # which does not fit into the batch of "second"
        _wait_for_unanswered(broker, 3)
        broker.let_go()


def test_full_batches_do_not_wait_behind_open_ones_and_leave_these_in_line() -> None:
    options = {"linger_ms": 0, "buffer_memory": 400_000, "batch_size": 31_000}
    with HoldingBroker(3) as broker, broker.producer(**options) as producer:
        _send_and_hold(broker, producer, 50_000)
        queue = producer._sender._brokers[broker.node_id]
        cold = [producer.send(TOPIC, b"cold", partition=number) for number in (1, 2)]
        wait_until(lambda: len(queue.requests.line) == 2)
        for count in (2, 3, 4):
            producer.send(TOPIC, bytes(31_000), partition=0)
            _wait_for_unanswered(broker, count)
        _await_second_pass(producer)
        assert [each.partition for each in queue.requests.line] == [1, 2]
        assert not any(delivery.done() for delivery in cold)
        broker.let_go()


def test_a_broker_is_available_while_its_next_request_waits_to_grow() -> None:
    options = {"linger_ms": 0, "buffer_memory": 100_000, "partitioner_availability_timeout_ms": 1}
    with HoldingBroker() as broker, broker.producer(**options) as producer:
        _send_and_hold(broker, producer, 30_000)
        assert _waits_in_line(broker, producer, b"second")
        time.sleep(0.01)
        assert not producer._accumulator.choice.leaders.unavailable()
        broker.let_go()


def test_a_flushed_batch_waits_for_no_response() -> None:
    with HoldingBroker() as broker, broker.producer(linger_ms=0, buffer_memory=100_000) as producer:
        _send_and_hold(broker, producer, 30_000)
        late = _waits_in_line(broker, producer, b"late")
        with pytest.raises(TimeoutError):
            producer.flush(1)
        assert broker.unanswered == 2
        broker.let_go()
        assert late.result(30).offset == 2


def _send_and_hold(broker: HoldingBroker, producer: Producer, size: int) -> None:
    """Let *broker* store one record, and hold back its response to a second one of *size* bytes."""
    producer.send(TOPIC, b"first", partition=0).result(30)
    broker.hold()
    producer.send(TOPIC, bytes(size), partition=0)
    _wait_for_unanswered(broker, 1)


def _waits_in_line(broker: HoldingBroker, producer: Producer, value: bytes) -> Delivery:
    """Send *value*, and check that its batch waits in line behind one request in flight."""
    queue = producer._sender._brokers[broker.node_id]
    delivery = producer.send(TOPIC, value, partition=0)
    wait_until(lambda: bool(queue.requests.line))
    _await_second_pass(producer)
    assert queue.requests.line
    assert queue.in_flight == 1
    return delivery


def _await_second_pass(producer: Producer) -> None:
    """Return when the sender has begun a second pass, and so has ended the first one."""
    for _ in range(2):
        begun = threading.Event()
        producer._thread.post(begun.set)
        assert begun.wait(30)


def _offsets_of_growing_batch(broker: HoldingBroker, producer: Producer, in_flight: int) -> list[int]:
    """Send two records, and a third one after the sender has looked at them. Check that all three wait behind
    the requests *in_flight*, and join one batch. Return their offsets."""
    waiting = [producer.send(TOPIC, b"next"), producer.send(TOPIC, b"second")]
    _await_second_pass(producer)
    assert producer._sender._brokers[broker.node_id].in_flight == in_flight
    waiting.append(producer.send(TOPIC, b"third"))
    broker.let_go()
    offsets = [delivery.result(30).offset for delivery in waiting]
    assert len({delivery.batch_and_index[0] for delivery in waiting}) == 1
    return offsets
