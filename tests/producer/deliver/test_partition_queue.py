"""One partition's batches stay in order, none is lost or stored twice, and the number in flight is
limited."""

import threading
from itertools import count
from typing import Any

import pytest

from pyklient.error_codes import ErrorCode
from pyklient.errors import BrokerConnectionError, BrokerError, broker_error
from pyklient.kernel import Batch
from pyklient.producer.deliver.batch_compression import BatchCompressor
from pyklient.producer.deliver.in_flight_limits import in_flight_limits
from pyklient.producer.deliver.partition_queue import PartitionQueue
from pyklient.producer.deliver.sealed_batch import SealedBatch
from pyklient.producer.deliver.sequences import LAST_EPOCH, Sequences
from pyklient.producer.delivery_tracker import DeliveryTracker
from pyklient.producer.producer import Producer
from pyklient.producer.threads.sender_thread import SenderThread
from pyklient.protocol.messages import MetadataRequest, ProduceRequest
from pyklient.protocol.records import Compression
from pyklient.topic_partition import TopicPartition
from tests.net.scripted import HANG_UP
from tests.producer.script import (
    ONE_BY_ONE,
    TOPIC,
    LoseAnswer,
    ProduceBroker,
    Refuse,
    numbers,
    producing,
    wait_until,
)

REMEMBERED = 5


class OneRecordCompressor(BatchCompressor):
    """Returns each batch as if it had one record."""

    def __init__(self) -> None:
        pass

    def compress(self, batch: Batch) -> SealedBatch:
        return SealedBatch(batch, 0, 1, b"r", Compression.NONE, (0, 0), 62)


class Bench:
    """A queue with any number of batches of one record, which are due at once."""

    def __init__(self, batches: int) -> None:
        sequences = Sequences()
        sequences.adopt(7, 0)
        self.changed: dict[PartitionQueue, None] = {}
        self.queue = PartitionQueue(
            TopicPartition("clicks", 0),
            sequences,
            OneRecordCompressor(),
            in_flight_limits(REMEMBERED),
            self.changed,
            linger=0.0,
            delivery_timeout=60.0,
        )
        tracker = DeliveryTracker(SenderThread("pyklient-producer test"))
        for _ in range(batches):
            self.queue.add(Batch(tracker, "clicks", 0, 0.0))

    def take(self) -> SealedBatch:
        batch = self.queue.drain(1)
        assert batch is not None
        return batch

    def take_all(self) -> list[SealedBatch]:
        """Return the batches that may be sent at once."""
        taken = []
        while self.queue.ready(1.0):
            taken.append(self.take())
        return taken

    def lose(self, batch: SealedBatch) -> None:
        """Lose the response to *batch*."""
        self.queue.retry(batch, BrokerConnectionError("cut"), in_doubt=True, not_before=0.0)


def leader_of_the_first(producer: Producer) -> int:
    leader = producer._client.metadata.leader(TopicPartition(TOPIC, 0))
    return -1 if leader is None else leader.id


def test_a_change_behind_a_sealed_batch_that_was_checked_needs_no_check() -> None:
    bench = Bench(2)
    first, second = bench.queue._waiting

    def is_to_be_checked() -> bool:
        bench.changed.clear()
        bench.queue.note_change()
        return bool(bench.changed)

    bench.queue.next_check(1.0)
    assert is_to_be_checked(), "records may still be appended to the first batch"
    first.sealed = True
    assert is_to_be_checked()
    bench.queue.next_check(1.0)
    assert not is_to_be_checked()
    bench.take()
    assert is_to_be_checked(), "another batch is the first now"
    second.sealed = True
    bench.queue.next_check(1.0)
    assert not is_to_be_checked()
    bench.take()
    assert not is_to_be_checked(), "no batch waits"


def test_a_queue_stays_in_line_while_its_next_batch_may_be_sent_now_or_after_a_response() -> None:
    bench = Bench(REMEMBERED + 2)
    bench.queue.stored(bench.take())
    for batch in bench.queue._waiting:
        batch.sealed = True
    bench.queue.in_line = bench.queue.routed = True
    bench.changed.clear()
    for _ in range(REMEMBERED):
        assert bench.queue.ready(1.0)
        bench.take()
        assert bench.queue.stays_in_line(1.0)
    assert not bench.queue.ready(1.0), "the next batch waits for a response"
    bench.queue.stored(bench.queue._in_flight[0])
    assert bench.queue.ready(1.0)
    assert not bench.changed, "a queue in line is looked at anyway"
    bench.take()
    assert not bench.queue.stays_in_line(1.0), "no batch is left"
    assert not bench.queue.in_line


def test_a_queue_that_left_the_line_at_its_limit_is_checked_after_a_response() -> None:
    bench = Bench(REMEMBERED + 2)
    bench.queue.stored(bench.take())
    bench.queue.in_line = bench.queue.routed = True
    sent = [bench.take() for _ in range(REMEMBERED)]
    assert not bench.queue.ready(1.0)
    bench.queue.leave_line()
    bench.changed.clear()
    bench.queue.stored(sent[0])
    assert bench.changed


def test_a_queue_in_line_sends_nothing_without_a_producer_id_after_the_last_epoch() -> None:
    bench = Bench(3)
    assert bench.queue.sequences is not None
    bench.queue.sequences.adopt(7, LAST_EPOCH)
    failed = bench.take()
    bench.queue.in_line = bench.queue.routed = True
    bench.queue.failed(failed)
    assert bench.queue.sequences.producer_id == -1
    assert not bench.queue.ready(1.0)
    bench.changed.clear()
    bench.queue.leave_line()
    assert bench.changed, "the sender asks for another producer id"
    assert bench.queue.ready(1.0)
    bench.queue.sequences.adopt(8, 0)
    bench.queue.in_line = bench.queue.routed = True
    assert bench.queue.ready(1.0)
    assert bench.take().identity == (8, 0, 0)


def test_a_queue_whose_next_batch_lingers_is_checked_again() -> None:
    bench = Bench(3)
    bench.queue.stored(bench.take())
    bench.queue._linger = 10.0
    bench.queue._waiting[0].sealed = True
    bench.queue.in_line = bench.queue.routed = True
    bench.changed.clear()
    bench.take()
    assert not bench.queue.stays_in_line(1.0)
    assert bench.changed


def test_a_queue_in_line_is_not_checked_because_of_a_response() -> None:
    bench = Bench(3)
    bench.queue.stored(bench.take())
    sent = bench.take()
    bench.changed.clear()
    bench.queue.in_line = bench.queue.routed = True
    bench.queue.stored(sent)
    assert not bench.changed


def test_the_first_of_a_sequence_goes_alone_and_then_as_many_as_a_broker_remembers() -> None:
    bench = Bench(20)
    (first,) = bench.take_all()
    bench.queue.stored(first)
    assert len(bench.take_all()) == REMEMBERED


def test_what_goes_again_waits_for_everything_in_flight_and_for_its_back_off() -> None:
    bench = Bench(20)
    bench.queue.stored(bench.take())
    first, second, *others = bench.take_all()
    bench.queue.retry(first, broker_error(ErrorCode.NOT_LEADER_OR_FOLLOWER), in_doubt=False, not_before=5.0)
    assert not bench.queue.ready(9.0)
    bench.lose(second)
    for batch in others:
        assert not bench.queue.ready(9.0)
        bench.lose(batch)
    assert not bench.queue.ready(4.9)
    assert bench.queue.ready(5.0)
    assert bench.take() is first


def test_what_goes_again_goes_in_the_order_in_which_it_was_sent_first() -> None:
    bench = Bench(20)
    bench.queue.stored(bench.take())
    taken = bench.take_all()
    for batch in reversed(taken):
        bench.lose(batch)
    again = []
    for _ in taken:
        again.append(bench.take())
        bench.queue.stored(again[-1])
    assert again == taken


def test_nothing_new_goes_behind_a_batch_of_which_nobody_knows_whether_it_is_stored() -> None:
    bench = Bench(4)
    bench.queue.stored(bench.take())
    doubtful, behind = bench.take(), bench.take()
    doubtful.in_doubt = True
    bench.queue.failed(doubtful)
    assert not bench.queue.ready(1.0)
    bench.queue.stored(behind)  # so there was no gap before it
    assert bench.queue.ready(1.0)
    assert (behind.identity, bench.take().identity) == ((7, 0, 2), (7, 0, 3))


def test_what_blocked_it_is_forgotten_once_something_is_stored() -> None:
    bench = Bench(2)
    first = bench.take()
    bench.queue.blocked_by = error = BrokerConnectionError("cut")
    assert bench.queue.last_failure is error
    bench.queue.stored(first)
    assert bench.queue.last_failure is None


def test_nothing_new_pushes_one_in_doubt_out_of_the_brokers_memory() -> None:
    bench = Bench(20)
    bench.queue.stored(bench.take())
    oldest, *others = bench.take_all()
    for batch in others:  # on another connection, which was quicker
        bench.queue.stored(batch)
    assert bench.take_all() == []
    for _ in count(1):
        bench.lose(oldest)
        assert bench.take_all() == [oldest]
        if oldest.attempts > REMEMBERED:
            break
    bench.queue.stored(oldest)
    assert len(bench.take_all()) == REMEMBERED


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER), id="not-leader"),
        pytest.param(Refuse(ErrorCode.REQUEST_TIMED_OUT), id="timed-out"),
        pytest.param(Refuse(ErrorCode.NOT_ENOUGH_REPLICAS), id="not-enough-replicas"),
        pytest.param(Refuse(ErrorCode.CORRUPT_MESSAGE), id="corrupt"),
        pytest.param(LoseAnswer(ErrorCode.REQUEST_TIMED_OUT), id="stored-but-timed-out"),
        pytest.param(LoseAnswer(HANG_UP), id="stored-but-hung-up"),
        pytest.param(lambda request: LoseAnswer(HANG_UP), id="hung-up"),
        pytest.param(lambda request: Refuse(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), id="out-of-order"),
    ],
)
@pytest.mark.parametrize("at", [0, 1, 4])
def test_many_in_flight_stay_in_order_through_a_failure(
    broker: ProduceBroker, fault: Refuse | LoseAnswer, at: int
) -> None:
    broker.faults.extend([None] * at + [fault])
    with producing(broker, **ONE_BY_ONE) as producer:
        sent = [producer.send(TOPIC, value) for value in numbers(40)]
        assert [delivery.result(30).offset for delivery in sent] == list(range(40))
    assert broker.stored[0] == numbers(40)
    assert all(one.producer_id >= 0 for one in broker.seen)


def test_what_may_have_been_stored_goes_again_with_the_same_identity_and_bytes(broker: ProduceBroker) -> None:
    broker.faults.append(LoseAnswer(HANG_UP))
    with producing(broker) as producer:
        assert producer.send(TOPIC, b"x", key=b"k", headers=[("h", None)]).result(30).offset == 0
    first, second = broker.seen
    assert bytes(first.batch.buffer) == bytes(second.batch.buffer)
    assert broker.stored[0] == [b"x"]


def test_a_record_that_is_refused_leaves_no_gap_behind_it(broker: ProduceBroker) -> None:
    broker.faults.extend([None, Refuse(ErrorCode.INVALID_RECORD, "no key, but the topic is compacted")])
    with producing(broker, **ONE_BY_ONE) as producer:
        sent = [producer.send(TOPIC, value) for value in numbers(30)]
        error = sent[1].exception(30)
        assert isinstance(error, BrokerError)
        assert error.name == "INVALID_RECORD"
        assert "compacted" in str(error)
        others = [delivery.result(30).offset for delivery in sent if delivery is not sent[1]]
    assert others == list(range(29))
    assert broker.stored[0] == [value for value in numbers(30) if value != b"1"]


def test_a_record_in_doubt_that_fails_for_good_does_not_double_what_follows(broker: ProduceBroker) -> None:
    """The first batch is stored, but the broker does not confirm it and then rejects it. The other batches
    were stored too, and their responses lost, so they must keep their identities."""
    broker.faults.extend(
        [
            LoseAnswer(ErrorCode.REQUEST_TIMED_OUT),
            LoseAnswer(ErrorCode.REQUEST_TIMED_OUT),
            Refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ]
    )
    with producing(broker, **ONE_BY_ONE) as producer:
        sent = [producer.send(TOPIC, value) for value in numbers(2)]
        wait_until(lambda: all(delivery.done() for delivery in sent))
        assert isinstance(sent[0].exception(30), BrokerError)
        assert sent[1].result(30).offset == 1
        assert producer.send(TOPIC, b"2").result(30).offset == 2
    assert broker.stored[0] == numbers(3)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"acks": 1, "max_in_flight_requests_per_connection": 1}, id="one-in-flight"),
        pytest.param({"acks": 1}, id="five-in-flight"),
        pytest.param({"max_in_flight_requests_per_connection": 1}, id="one-in-flight-idempotent"),
    ],
)
def test_nothing_goes_to_a_new_leader_before_the_old_one_has_answered(options: dict[str, Any]) -> None:
    answer = threading.Event()

    def hold_and_refuse(request: ProduceRequest) -> Refuse:
        answer.wait(60)
        return Refuse(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    with ProduceBroker(partitions=2) as old, ProduceBroker(partitions=2, node_id=2) as new:
        old.peers.append(new)
        new.on(MetadataRequest, old._metadata)
        old.leaders = {0: old.node_id, 1: new.node_id}
        with producing(old, **ONE_BY_ONE, **options) as producer:
            for partition in (0, 1):
                producer.send(TOPIC, b"connects", partition=partition).result(30)
            old.faults.append(hold_and_refuse)
            first = producer.send(TOPIC, b"0", partition=0)
            wait_until(lambda: old.count(ProduceRequest) == 2)
            old.leaders[0] = new.node_id
            producer._thread.post(producer._sender._metadata.want)
            wait_until(lambda: leader_of_the_first(producer) == new.node_id)
            second = producer.send(TOPIC, b"1", partition=0)
            # Sent later to the same broker: when it is there, the one before could be there too.
            producer.send(TOPIC, b"passes", partition=1).result(30)
            assert new.stored[0] == []
            answer.set()
            assert [first.result(30).offset, second.result(30).offset] == [0, 1]
    assert new.stored[0] == [b"0", b"1"]
