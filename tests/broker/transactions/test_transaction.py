"""The rules by which requests change a transactional id, as in Kafka's TransactionCoordinator."""

from dataclasses import replace

import pytest

from pyklient.broker.api_errors import ApiError
from pyklient.broker.cluster.producer_ids import ProducerIds
from pyklient.broker.log.partition_log import ProducerIdentity
from pyklient.broker.transactions.states import TransactionState
from pyklient.broker.transactions.transaction import Transaction
from pyklient.error_codes import ErrorCode
from pyklient.topic_partition import TopicPartition

NOW = 1000
NEWEST_EPOCH = 2**15 - 1
CLICKS = TopicPartition("clicks", 0)
NEXT_ID = 900

OK, DONE = "allowed", "already done"
FENCED, STATE = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE
BUSY, OTHER = ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.INVALID_PRODUCER_ID_MAPPING


def ids() -> ProducerIds:
    return ProducerIds(NEXT_ID)


def transaction(state: TransactionState, epoch: int = 5) -> Transaction:
    return Transaction(
        "orders", 7, 60_000, NOW, previous_producer_id=7, epoch=epoch, state=state, started_ms=NOW - 10
    )


def answer(found: Transaction, epoch: int, version: int, *, commit: bool, producer_id: int = 7) -> object:
    try:
        is_ended = found.is_ended(ProducerIdentity(producer_id, epoch), version, commit=commit)
    except ApiError as error:
        return error.code
    return DONE if is_ended else OK


# state, then the answers to: abort with the epoch before, abort, commit with the epoch before, commit.
# The table of version 2 is that of KIP-890.
@pytest.mark.parametrize(
    ("version", "state", "expected"),
    [
        (2, TransactionState.EMPTY, [FENCED, OK, FENCED, STATE]),
        (2, TransactionState.ONGOING, [FENCED, OK, FENCED, OK]),
        (2, TransactionState.PREPARE_COMMIT, [STATE, FENCED, BUSY, FENCED]),
        (2, TransactionState.PREPARE_ABORT, [BUSY, FENCED, STATE, FENCED]),
        (2, TransactionState.COMPLETE_COMMIT, [STATE, OK, DONE, STATE]),
        (2, TransactionState.COMPLETE_ABORT, [DONE, OK, STATE, STATE]),
        (1, TransactionState.EMPTY, [FENCED, STATE, FENCED, STATE]),
        (1, TransactionState.ONGOING, [FENCED, OK, FENCED, OK]),
        (1, TransactionState.PREPARE_COMMIT, [FENCED, STATE, FENCED, BUSY]),
        (1, TransactionState.PREPARE_ABORT, [FENCED, BUSY, FENCED, STATE]),
        (1, TransactionState.COMPLETE_COMMIT, [FENCED, STATE, FENCED, DONE]),
        (1, TransactionState.COMPLETE_ABORT, [FENCED, DONE, FENCED, STATE]),
    ],
)
def test_a_transaction_ends_as_its_state_and_version_allow(
    version: int, state: TransactionState, expected: list[object]
) -> None:
    found = transaction(state)
    assert [
        answer(found, epoch, version, commit=commit) for commit in (False, True) for epoch in (4, 5)
    ] == expected
    assert answer(found, 6, version, commit=True) == FENCED
    assert answer(found, 5, version, commit=True, producer_id=8) == OTHER


def test_version_2_gives_a_new_epoch_at_the_end_of_each_transaction() -> None:
    found = replace(transaction(TransactionState.ONGOING), partitions=frozenset([CLICKS]))
    prepared = found.ending(2, NOW, ids(), commit=True)
    assert (prepared.state, prepared.epoch, prepared.last_epoch) == ("PrepareCommit", 6, 5)
    assert prepared.partitions == {CLICKS}
    completed = prepared.completed(NOW)
    assert (completed.state, completed.producer) == ("CompleteCommit", (7, 6))
    assert completed.partitions == frozenset()
    assert found.ending(1, NOW, ids(), commit=False).completed(NOW).producer == (7, 5)


def test_version_2_gives_a_new_producer_id_when_no_epoch_is_left_and_recognizes_a_retry() -> None:
    prepared = transaction(TransactionState.ONGOING, NEWEST_EPOCH - 1).ending(2, NOW, ids(), commit=True)
    assert prepared.producer == (7, NEWEST_EPOCH), "the last epoch fences the producer"
    completed = prepared.completed(NOW)
    assert completed.producer == (NEXT_ID, 0)
    assert answer(completed, NEWEST_EPOCH - 1, 2, commit=True) == DONE
    assert answer(completed, NEWEST_EPOCH - 1, 2, commit=False) == STATE


def test_a_transaction_that_the_coordinator_aborts_fences_its_producer() -> None:
    found = transaction(TransactionState.ONGOING)
    fenced = found.aborting(1, NOW).completed(NOW)
    assert fenced.producer == (7, 6)
    assert started(fenced, ProducerIdentity(7, 5)) == FENCED
    fenced = found.aborting(2, NOW).completed(NOW)
    assert fenced.producer == (7, 6)
    assert answer(fenced, 5, 2, commit=True) == STATE
    assert answer(fenced, 5, 2, commit=False) == DONE
    assert started(fenced, ProducerIdentity(7, 5)) == (7, 6)
    last = transaction(TransactionState.ONGOING, NEWEST_EPOCH - 1)
    assert last.aborting(2, NOW).completed(NOW).producer == (7, NEWEST_EPOCH)
    assert started(last.aborting(2, NOW).completed(NOW), None) == (NEXT_ID, 0)


def started(found: Transaction, expected: ProducerIdentity | None) -> object:
    try:
        return tuple(found.initialized(expected, 60_000, NOW, ids()).producer)
    except ApiError as error:
        return error.code


def test_a_new_producer_fences_the_one_before() -> None:
    new = Transaction("orders", 7, 60_000, NOW)
    assert started(new, None) == (7, 0)
    assert started(new, ProducerIdentity(99, 3)) == (7, 0)
    for state in (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT):
        assert started(transaction(state), None) == (7, 6)
        assert started(transaction(state, NEWEST_EPOCH - 1), None) == (NEXT_ID, 0)
    for state in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT):
        assert started(transaction(state), None) == BUSY


def test_a_producer_that_continues_after_an_error_gets_the_next_epoch_once() -> None:
    before = transaction(TransactionState.COMPLETE_ABORT)
    after = before.initialized(ProducerIdentity(7, 5), 60_000, NOW, ids())
    assert after.producer == (7, 6)
    assert started(after, ProducerIdentity(7, 5)) == (7, 6), "the response was lost"
    assert started(after, ProducerIdentity(7, 4)) == FENCED
    assert started(after, ProducerIdentity(8, 6)) == FENCED
    taken_over = after.initialized(None, 60_000, NOW, ids())
    assert started(taken_over, ProducerIdentity(7, 6)) == FENCED


def test_partitions_are_added_by_the_current_producer_only() -> None:
    producer = ProducerIdentity(7, 5)
    begun = transaction(TransactionState.COMPLETE_COMMIT).with_partitions(producer, {CLICKS}, 2, NOW)
    assert (begun.state.value, begun.started_ms) == ("Ongoing", NOW)
    assert begun.partitions == {CLICKS}
    assert begun.with_partitions(producer, {CLICKS}, 2, NOW + 5) is begun
    more = begun.with_partitions(producer, {TopicPartition("clicks", 1)}, 2, NOW + 5)
    assert (more.started_ms, len(more.partitions)) == (NOW, 2)
    for identity, state, code in (
        (ProducerIdentity(8, 5), TransactionState.ONGOING, OTHER),
        (ProducerIdentity(7, 4), TransactionState.ONGOING, FENCED),
        (ProducerIdentity(7, 6), TransactionState.EMPTY, FENCED),
        (producer, TransactionState.PREPARE_COMMIT, BUSY),
    ):
        with pytest.raises(ApiError) as told:
            transaction(state).with_partitions(identity, {CLICKS}, 2, NOW)
        assert told.value.code == code
