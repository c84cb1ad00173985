"""Version 1 of the protocol: a transaction past its time-out, told from a producer that was fenced.

The coordinator gives the same answer in both cases. Brokers since Kafka 3.0 describe transactions.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyklient import GroupMetadata, Producer, TopicPartition
from pyklient.broker import Broker
from pyklient.error_codes import ErrorCode
from pyklient.errors import AbortableTransactionError, ProducerFencedError
from pyklient.protocol.messages import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    InitProducerIdRequest,
)
from tests.net.scripted import HANG_UP
from tests.producer.script import TOPIC, Refuse
from tests.producer.transaction_script import TRANSACTIONAL_ID, TransactionBroker
from tests.servers.isolation import committed_values

LATE = "the brokers have aborted the transaction, because it was open for"


@pytest.fixture
def broker() -> Iterator[TransactionBroker]:
    """A coordinator with version 1 of the protocol that has aborted the transaction of the epoch 0."""
    with TransactionBroker() as broker:
        describe(broker, "CompleteAbort", 1)
        yield broker


@pytest.fixture
def late(broker: TransactionBroker) -> Iterator[Producer]:
    """A producer with a record in a transaction that is past its time-out."""
    producer = broker.transactional()
    producer.begin_transaction()
    producer.send(TOPIC, b"late").result(30)
    manager = producer._manager()
    manager._began -= manager._timeout_ms / 1000
    yield producer
    producer._close(0)


def describe(broker: TransactionBroker, state: str, epoch: int, producer_id: int = 7) -> None:
    """Let *broker* describe the transactional id in this way."""
    found = DescribeTransactionsResponse.TransactionState(
        transactional_id=TRANSACTIONAL_ID,
        transaction_state=state,
        producer_id=producer_id,
        producer_epoch=epoch,
    )
    broker.on(DescribeTransactionsRequest, lambda _: DescribeTransactionsResponse(transaction_states=[found]))


def asked_epochs(broker: TransactionBroker) -> list[tuple[int, int]]:
    """Return the producer ids and epochs for which new epochs were asked."""
    return [(each.producer_id, each.producer_epoch) for each in broker.of(InitProducerIdRequest)]


@pytest.mark.parametrize("state", ["CompleteAbort", "PrepareAbort"])
@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_a_commit_past_the_time_out_can_be_aborted(
    broker: TransactionBroker, late: Producer, state: str, code: int
) -> None:
    describe(broker, state, 1)
    broker.answers.append(code)
    with pytest.raises(AbortableTransactionError, match=LATE):
        late.commit_transaction()
    late.abort_transaction()
    assert asked_epochs(broker) == [(-1, -1), (7, 1)]
    with late.transaction():
        late.send(TOPIC, b"next")
    assert broker.ends() == [True, True]


def test_an_abort_past_the_time_out_succeeds(broker: TransactionBroker, late: Producer) -> None:
    broker.answers.append(ErrorCode.PRODUCER_FENCED)
    late.abort_transaction()
    assert asked_epochs(broker) == [(-1, -1), (7, 1)]
    late.begin_transaction()


def test_a_record_past_the_time_out_fails_the_transaction(broker: TransactionBroker, late: Producer) -> None:
    broker.faults.append(Refuse(ErrorCode.INVALID_PRODUCER_EPOCH))
    broker.answers.append(ErrorCode.PRODUCER_FENCED)
    late.send(TOPIC, b"too late")
    with pytest.raises(AbortableTransactionError, match=LATE):
        late.commit_transaction()
    late.abort_transaction()
    assert broker.ends() == [False]
    assert asked_epochs(broker) == [(-1, -1), (7, 1)]


@pytest.mark.parametrize(
    "described",
    [
        ("Empty", 2),
        ("Empty", 1),
        ("Ongoing", 1),
        ("CompleteCommit", 1),
        ("CompleteAbort", 2),
        ("CompleteAbort", 1, 8),
    ],
)
def test_a_producer_whose_successor_has_begun_is_fenced(
    broker: TransactionBroker, late: Producer, described: tuple[Any, ...]
) -> None:
    describe(broker, *described)
    broker.answers.append(ErrorCode.PRODUCER_FENCED)
    with pytest.raises(ProducerFencedError, match="another producer"):
        late.commit_transaction()
    assert asked_epochs(broker) == [(-1, -1)]


def test_after_a_lost_answer_the_next_epoch_may_be_that_of_a_successor(
    broker: TransactionBroker, late: Producer
) -> None:
    """The first request may have committed. A successor that then has aborted a transaction of its own looks
    like the end of this transaction, and must not lose its epoch."""
    broker.answers += [HANG_UP, ErrorCode.PRODUCER_FENCED]
    with pytest.raises(ProducerFencedError):
        late.commit_transaction()
    assert not broker.count(DescribeTransactionsRequest)
    assert asked_epochs(broker) == [(-1, -1)]


def test_brokers_that_describe_no_transactions_leave_it_open(
    broker: TransactionBroker, late: Producer
) -> None:
    refused = DescribeTransactionsResponse.TransactionState(
        error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id=TRANSACTIONAL_ID
    )
    broker.on(
        DescribeTransactionsRequest, lambda _: DescribeTransactionsResponse(transaction_states=[refused])
    )
    broker.answers.append(ErrorCode.PRODUCER_FENCED)
    with pytest.raises(ProducerFencedError, match=f"has taken over, or {LATE}"):
        late.commit_transaction()


@pytest.fixture
def reference() -> Iterator[Broker]:
    """The reference broker with version 1 of the protocol, which aborts late transactions soon."""
    with Broker(
        transaction_version=0, transaction_abort_timed_out_transaction_cleanup_interval_ms=20
    ) as broker:
        broker.create_topic(TOPIC)
        yield broker


def send_offsets(producer: Producer) -> None:
    producer.send_offsets_to_transaction({TopicPartition(TOPIC, 0): 1}, GroupMetadata("group"))


def send(producer: Producer) -> None:
    producer.send(TOPIC, b"too late")
    producer.commit_transaction()


@pytest.mark.parametrize("call", [Producer.commit_transaction, send, send_offsets])
def test_a_producer_continues_after_each_time_out(
    reference: Broker, call: Callable[[Producer], object]
) -> None:
    where = reference.bootstrap_servers
    with Producer(where, transactional_id="late", transaction_timeout_ms=3_000) as producer:
        for number in range(2):
            with producer.transaction():
                producer.send(TOPIC, b"in time %d" % number)
            producer.begin_transaction()
            producer.send(TOPIC, b"late").result(30)
            committed_values(where, TOPIC)  # returns when the brokers have aborted the transaction
            with pytest.raises(AbortableTransactionError, match=LATE):
                call(producer)
            producer.abort_transaction()
        assert committed_values(where, TOPIC) == [b"in time 0", b"in time 1"]
