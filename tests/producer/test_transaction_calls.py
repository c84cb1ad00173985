"""The calls for transactions, with a coordinator that answers as the test says: late, never, with errors."""

import _thread
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from pyklient.error_codes import ErrorCode
from pyklient.errors import (
    AbortableTransactionError,
    CommitOutcomeUnknownError,
    FatalTransactionError,
    ForkError,
    KafkaError,
    KafkaTimeoutError,
    ProducerFencedError,
    TransactionAbortedError,
    TransactionError,
    TransactionStateError,
)
from pyklient.kernel import Delivery, encode_batch
from pyklient.producer.mirror_producer import MirrorProducer
from pyklient.producer.producer import Producer
from pyklient.producer.transactions.state_machine import StateMachine
from pyklient.protocol.messages import (
    REQUESTS,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProduceRequest,
    ProduceResponse,
)
from pyklient.protocol.records import NewRecord, iter_batches
from tests.net.scripted import HANG_UP, SILENCE
from tests.producer.script import TOPIC, LoseAnswer, Refuse, identities, wait_until
from tests.producer.transaction_script import TRANSACTIONAL_ID, TransactionBroker


@pytest.fixture
def broker() -> Iterator[TransactionBroker]:
    """A broker and coordinator with version 1 of the protocol."""
    with TransactionBroker(partitions=3) as broker:
        yield broker


@contextmanager
def producing(broker: TransactionBroker, **options: object) -> Iterator[Producer]:
    """A producer with transactions, which is closed without a wait."""
    producer = broker.transactional(**options)
    try:
        yield producer
    finally:
        producer._close(0)


def send_and_commit(producer: Producer) -> None:
    with producer.transaction():
        producer.send(TOPIC, b"x", partition=0)


@pytest.mark.parametrize("version", [1, 2])
def test_a_partition_whose_records_wait_at_an_abort_is_added_to_the_next_transaction(version: int) -> None:
    with TransactionBroker(version) as broker:
        whole, throttles = broker._produce, [1_500]

        def produce(request: ProduceRequest) -> ProduceResponse:
            answer: ProduceResponse = whole(request)
            answer.throttle_time_ms = throttles.pop() if throttles else 0
            return answer

        broker.on(ProduceRequest, produce)
        with producing(broker, linger_ms=0) as producer:
            with producer.transaction():
                producer.send(TOPIC, b"1", partition=0)
            producer.begin_transaction()
            dropped = producer.send(TOPIC, b"2", partition=0)
            queue = producer._sender._queues[TOPIC, 0]
            wait_until(lambda: queue.in_line)
            producer.abort_transaction()
            assert queue.in_line, "the broker is still throttled, or the test shows nothing"
            assert dropped.exception(0) is not None
            with producer.transaction():
                producer.send(TOPIC, b"3", partition=0)
        assert broker.stored[0] == [b"1", b"3"]
        assert broker.ends()[-1] is True, "the last transaction has records, so its end is a request"
        if version == 1:
            assert len(broker.of(AddPartitionsToTxnRequest)) == 3


def test_version_1_adds_partitions_and_ends_transactions_in_one_epoch(broker: TransactionBroker) -> None:
    with producing(broker) as producer:
        send_and_commit(producer)
        send_and_commit(producer)
    kinds = (InitProducerIdRequest, AddPartitionsToTxnRequest, ProduceRequest, EndTxnRequest)
    assert [type(each) for each in broker.requests if isinstance(each, kinds)] == [
        InitProducerIdRequest,
        *(AddPartitionsToTxnRequest, ProduceRequest, EndTxnRequest) * 2,
    ]
    assert identities(broker.seen) == [(7, 0, 0), (7, 0, 1)]
    assert all(each.batch.is_transactional for each in broker.seen)
    assert {each.transactional_id for each in broker.of(ProduceRequest)} == {TRANSACTIONAL_ID}


def test_version_2_adds_no_partitions_and_gets_an_epoch_with_each_end() -> None:
    with TransactionBroker(version=2) as broker, producing(broker) as producer:
        send_and_commit(producer)
        send_and_commit(producer)
        assert identities(broker.seen) == [(7, 0, 0), (7, 1, 0)]
        assert not broker.count(AddPartitionsToTxnRequest)


@pytest.mark.parametrize("version", [1, 2])
def test_an_empty_transaction_asks_the_coordinator_for_nothing(version: int) -> None:
    with TransactionBroker(version=version) as broker, producing(broker) as producer:
        with producer.transaction():
            pass
        producer.begin_transaction()
        producer.abort_transaction()
        assert not broker.ends()


@pytest.mark.parametrize(
    "answer",
    [
        HANG_UP,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    ],
)
def test_a_commit_is_repeated_until_the_coordinator_confirms_it(
    broker: TransactionBroker, answer: object
) -> None:
    broker.answers += [answer, answer]
    with producing(broker) as producer:
        send_and_commit(producer)
        assert broker.ends() == [True] * 3


@pytest.mark.parametrize("answer", [SILENCE, ErrorCode.UNKNOWN_SERVER_ERROR])
def test_a_commit_without_an_answer_can_only_be_repeated(broker: TransactionBroker, answer: object) -> None:
    broker.answers.append(answer)
    with producing(broker) as producer:
        producer.begin_transaction()
        producer.send(TOPIC, b"x")
        with pytest.raises(CommitOutcomeUnknownError, match="call commit_transaction again") as caught:
            producer.commit_transaction(timeout=2)
        assert caught.value.retriable
        for call in (producer.begin_transaction, producer.abort_transaction):
            with pytest.raises(TransactionStateError, match="call commit_transaction again first"):
                call()
        with pytest.raises(TransactionStateError):
            producer.send(TOPIC, b"y")
        producer.commit_transaction()
        send_and_commit(producer)
        assert broker.ends() == [True] * 3


def test_a_commit_that_ctrl_c_interrupts_can_be_repeated(broker: TransactionBroker) -> None:

    def interrupt() -> object:
        _thread.interrupt_main(signal.SIGINT)
        return SILENCE

    broker.answers.append(interrupt)
    with producing(broker) as producer:
        with pytest.raises(KeyboardInterrupt):
            send_and_commit(producer)
        with pytest.raises(TransactionStateError):
            producer.begin_transaction()
        producer.commit_transaction()
        send_and_commit(producer)
        assert broker.ends() == [True] * 3


def test_ctrl_c_in_a_transaction_aborts_it(broker: TransactionBroker) -> None:
    with producing(broker) as producer:

        def interrupted() -> None:
            producer.send(TOPIC, b"x").result(30)
            signal.raise_signal(signal.SIGINT)

        with pytest.raises(KeyboardInterrupt), producer.transaction():
            interrupted()
        assert broker.ends() == [False]
        send_and_commit(producer)
        assert broker.ends() == [False, True]


def test_ctrl_c_at_the_beginning_of_a_call_releases_the_lock_of_transactions(
    broker: TransactionBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    broker.faults.append(Refuse(ErrorCode.INVALID_RECORD))
    with producing(broker) as producer:
        producer.begin_transaction()
        with pytest.raises(KafkaError):
            producer.send(TOPIC, b"x").result(30)
        with monkeypatch.context() as patch:
            patch.setattr(StateMachine, "move", interrupt)
            with pytest.raises(KeyboardInterrupt):
                producer.commit_transaction()
        producer.abort_transaction(timeout=5)


def test_a_transaction_that_is_open_at_a_fork_belongs_to_the_parent(broker: TransactionBroker) -> None:
    with producing(broker) as producer:
        producer.begin_transaction()
        producer.send(TOPIC, b"x").result(30)
        child = os.fork()
        if not child:
            refused = 0
            calls: list[Callable[[], object]] = [
                producer.commit_transaction,
                producer.abort_transaction,
                lambda: producer.send(TOPIC, b"y"),
            ]
            for call in calls:
                try:
                    call()
                except ForkError:
                    refused += 1
            producer.close()
            os._exit(refused)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        assert not broker.ends()
        producer.commit_transaction()
        assert broker.ends() == [True]


def test_transactions_cannot_end_in_a_callback(broker: TransactionBroker) -> None:
    errors: list[KafkaError] = []
    with producing(broker) as producer:

        def delivered(_: Delivery) -> None:
            try:
                producer.commit_transaction()
            except KafkaError as error:
                errors.append(error)

        with producer.transaction():
            producer.send(TOPIC, b"x", on_delivery=delivered)
        assert [type(error) for error in errors] == [TransactionStateError]
        assert broker.ends() == [True]


def test_a_partition_that_the_coordinator_does_not_know_yet_does_not_hold_up_the_others(
    broker: TransactionBroker,
) -> None:
    broker.unknown.add(1)
    with producing(broker, linger_ms=0) as producer:
        producer.begin_transaction()
        sent = [producer.send(TOPIC, b"x", partition=number) for number in range(3)]
        for number in (0, 2):
            sent[number].result(30)
        assert not sent[1].done()
        broker.unknown.clear()
        producer.commit_transaction()
        assert sent[1].result(0).partition == 1


def test_a_failed_record_that_is_certainly_not_stored_leaves_no_gap(broker: TransactionBroker) -> None:
    with producing(broker, batch_size=0, linger_ms=0) as producer:
        send_and_commit(producer)
        broker.faults.append(Refuse(ErrorCode.INVALID_RECORD))
        producer.begin_transaction()
        producer.send(TOPIC, b"bad", partition=0)
        with pytest.raises(AbortableTransactionError, match="INVALID_RECORD"):
            producer.commit_transaction()
        producer.abort_transaction()
        send_and_commit(producer)
    assert identities(broker.seen) == [(7, 0, 0), (7, 0, 1), (7, 0, 1)]
    assert broker.ends() == [True, False, True]


@pytest.mark.parametrize(
    "faults", [[Refuse(ErrorCode.UNKNOWN_PRODUCER_ID)], [LoseAnswer(ErrorCode.KAFKA_STORAGE_ERROR)] * 2]
)
def test_a_producer_whose_sequence_numbers_are_lost_gets_a_new_epoch(
    broker: TransactionBroker, faults: list[Refuse | LoseAnswer]
) -> None:
    with producing(broker, retries=1, retry_backoff_ms=1) as producer:
        producer.begin_transaction()
        broker.faults += faults
        producer.send(TOPIC, b"lost", partition=0)
        with pytest.raises(AbortableTransactionError):
            producer.commit_transaction()
        producer.abort_transaction()
        send_and_commit(producer)
    asked = [(each.producer_id, each.producer_epoch) for each in broker.of(InitProducerIdRequest)]
    assert asked == [(-1, -1), (7, 0)]
    assert identities(broker.seen)[-1] == (7, 1, 0)
    assert broker.ends() == [False, True]


def test_a_broker_before_2_5_cannot_give_a_new_epoch(broker: TransactionBroker) -> None:
    versions = {key: request.versions for key, request in REQUESTS.items()} | {22: (0, 1)}
    with TransactionBroker(versions=versions) as old, producing(old) as producer:
        producer.begin_transaction()
        old.faults.append(Refuse(ErrorCode.UNKNOWN_PRODUCER_ID))
        producer.send(TOPIC, b"x")
        with pytest.raises(AbortableTransactionError):
            producer.commit_transaction()
        with pytest.raises(FatalTransactionError, match=r"needs Kafka 2\.5 or later"):
            producer.abort_transaction()


def test_a_fenced_producer_asks_for_no_new_epoch(broker: TransactionBroker) -> None:
    """That would abort the transactions of the producer that has taken over."""
    broker.answers.append(ErrorCode.INVALID_PRODUCER_EPOCH)
    with producing(broker) as producer:
        broker.faults.append(Refuse(ErrorCode.INVALID_PRODUCER_EPOCH))
        with pytest.raises(ProducerFencedError), producer.transaction():
            producer.send(TOPIC, b"x")
        assert broker.count(InitProducerIdRequest) == 1
        assert broker.ends() == [False]
        with pytest.raises(ProducerFencedError):
            producer.send(TOPIC, b"y")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.TRANSACTION_ABORTABLE, AbortableTransactionError),
        (ErrorCode.INVALID_TXN_STATE, AbortableTransactionError),
        (ErrorCode.PRODUCER_FENCED, ProducerFencedError),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ProducerFencedError),
        (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, FatalTransactionError),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, FatalTransactionError),
    ],
)
def test_the_error_of_a_commit_says_how_to_go_on(
    broker: TransactionBroker, code: int, kind: type[TransactionError]
) -> None:
    broker.answers.append(code)
    with producing(broker) as producer:
        producer.begin_transaction()
        producer.send(TOPIC, b"x")
        with pytest.raises(kind):
            producer.commit_transaction()
        if kind is AbortableTransactionError:
            producer.abort_transaction()
            send_and_commit(producer)
        else:
            for call in (producer.commit_transaction, producer.abort_transaction, producer.begin_transaction):
                with pytest.raises(kind):
                    call()


def test_an_id_that_is_not_allowed_is_fatal(broker: TransactionBroker) -> None:
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    broker.on(FindCoordinatorRequest, lambda _: FindCoordinatorResponse(error_code=code))
    with producing(broker) as producer:
        with pytest.raises(FatalTransactionError, match="no permission for the transactional id"):
            producer.begin_transaction()
        with pytest.raises(FatalTransactionError):
            producer.init_transactions()


def test_a_broker_without_transactions_is_named_with_the_release_that_is_needed() -> None:
    versions = {key: request.versions for key, request in REQUESTS.items() if key not in (22, 24, 25, 26, 28)}
    with (
        TransactionBroker(versions=versions | {10: (0, 0)}) as broker,
        producing(broker) as producer,
        pytest.raises(FatalTransactionError, match=r"needs Kafka 0\.11 or later"),
    ):
        producer.begin_transaction()


def test_initializing_can_be_repeated_after_a_time_out(broker: TransactionBroker) -> None:
    busy = InitProducerIdResponse(error_code=ErrorCode.CONCURRENT_TRANSACTIONS)
    broker.on(InitProducerIdRequest, lambda _: busy)
    with producing(broker) as producer:
        with pytest.raises(KafkaTimeoutError, match="CONCURRENT_TRANSACTIONS"):
            producer.init_transactions(timeout=2)
        broker.on(InitProducerIdRequest, broker._initialize)
        send_and_commit(producer)


def test_a_commit_that_runs_out_of_time_before_records_are_stored_leaves_the_transaction_open(
    broker: TransactionBroker,
) -> None:
    broker.unknown.add(0)
    with producing(broker) as producer:
        producer.begin_transaction()
        producer.send(TOPIC, b"x", partition=0)
        with pytest.raises(KafkaTimeoutError, match="call commit_transaction again"):
            producer.commit_transaction(timeout=0.2)
        producer.send(TOPIC, b"y", partition=0)
        broker.unknown.clear()
        producer.commit_transaction()
        assert broker.stored[0] == [b"x", b"y"]


def test_an_abort_that_is_not_confirmed_can_be_repeated(broker: TransactionBroker) -> None:
    broker.answers += [SILENCE]
    with producing(broker) as producer:
        producer.begin_transaction()
        producer.send(TOPIC, b"x").result(30)
        with pytest.raises(KafkaTimeoutError):
            producer.abort_transaction(timeout=1)
        with pytest.raises(AbortableTransactionError, match="has not confirmed the abort"):
            producer.send(TOPIC, b"y")
        producer.abort_transaction()
        send_and_commit(producer)
        assert broker.ends() == [False, False, True]


def test_the_next_transaction_first_completes_an_abort_that_is_not_confirmed(
    broker: TransactionBroker,
) -> None:
    broker.answers += [SILENCE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    with producing(broker) as producer:
        producer.begin_transaction()
        producer.send(TOPIC, b"x").result(30)
        with pytest.raises(KafkaTimeoutError):
            producer.abort_transaction(timeout=1)
        send_and_commit(producer)
        assert broker.ends() == [False, False, False, True]


def test_a_record_in_flight_keeps_an_abort_waiting_and_is_not_sent_again(broker: TransactionBroker) -> None:
    """A request that arrives after the end of the transaction would become a part of the next one."""
    broker.faults += [LoseAnswer(SILENCE), None]
    with producing(broker, request_timeout_ms=1_000, delivery_timeout_ms=1_500) as producer:
        producer.begin_transaction()
        sent = producer.send(TOPIC, b"x", partition=0)
        wait_until(lambda: len(broker.seen) == 1)
        producer.abort_transaction()
        assert isinstance(sent.exception(0), TransactionAbortedError)
        assert len(broker.seen) == 1
        send_and_commit(producer)
        assert identities(broker.seen)[-1] == (7, 1, 0)


def test_a_batch_of_a_mirror_is_a_part_of_the_transaction(broker: TransactionBroker) -> None:
    records = [NewRecord(1_000, None, b"%d" % number) for number in range(3)]
    (batch,) = iter_batches(encode_batch(records))
    with MirrorProducer(broker.address, transactional_id=TRANSACTIONAL_ID) as producer:
        with pytest.raises(TransactionStateError):
            producer.send_batch(TOPIC, 0, batch)
        with producer.transaction():
            assert producer.send_batch(TOPIC, 0, batch) is not None
    (sent,) = broker.seen
    assert (sent.values, sent.batch.is_transactional) == ([b"0", b"1", b"2"], True)
    assert broker.ends() == [True]
