"""The states of a transactional id, and the events that lead from one state to the next::

Empty ──partitions added──▶ Ongoing ──commit──▶ PrepareCommit ──markers written──▶ CompleteCommit
                               └──────abort───▶ PrepareAbort ───markers written──▶ CompleteAbort

From CompleteCommit and CompleteAbort, the next transaction begins as from Empty. When a producer starts, the
state of its transactional id becomes Empty. With transactions version 2, a producer may also abort when the
broker has no open transaction for it.
"""

from enum import Enum, StrEnum
from typing import Final

__all__ = ["STATE_NUMBERS", "TRANSITIONS", "Event", "TransactionState", "next_state"]


class TransactionState(StrEnum):
    """The states of a transactional id, with the names that DescribeTransactions and ListTransactions use for
    them."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


STATE_NUMBERS: Final[dict[TransactionState, int]] = {
    state: number for number, state in enumerate(TransactionState)
}
"""The number of each state in the records of ``__transaction_state``."""


class Event(Enum):
    """The events that change the state of a transactional id."""

    INITIALIZED = "a producer with the transactional id has started"
    PARTITIONS_ADDED = "the producer has added partitions or a group to the transaction"
    COMMIT = "the producer commits the transaction"
    ABORT = "the producer or the coordinator aborts the transaction"
    ABORT_WITHOUT_PARTITIONS = "the producer aborts, although no partition was added (only with version 2)"
    MARKERS_WRITTEN = "all partitions of the transaction have its marker"


TRANSITIONS: Final[dict[tuple[TransactionState, Event], TransactionState]] = {
    (TransactionState.EMPTY, Event.INITIALIZED): TransactionState.EMPTY,
    (TransactionState.COMPLETE_COMMIT, Event.INITIALIZED): TransactionState.EMPTY,
    (TransactionState.COMPLETE_ABORT, Event.INITIALIZED): TransactionState.EMPTY,
    (TransactionState.EMPTY, Event.PARTITIONS_ADDED): TransactionState.ONGOING,
    (TransactionState.ONGOING, Event.PARTITIONS_ADDED): TransactionState.ONGOING,
    (TransactionState.COMPLETE_COMMIT, Event.PARTITIONS_ADDED): TransactionState.ONGOING,
    (TransactionState.COMPLETE_ABORT, Event.PARTITIONS_ADDED): TransactionState.ONGOING,
    (TransactionState.ONGOING, Event.COMMIT): TransactionState.PREPARE_COMMIT,
    (TransactionState.ONGOING, Event.ABORT): TransactionState.PREPARE_ABORT,
    (TransactionState.EMPTY, Event.ABORT_WITHOUT_PARTITIONS): TransactionState.PREPARE_ABORT,
    (TransactionState.COMPLETE_COMMIT, Event.ABORT_WITHOUT_PARTITIONS): TransactionState.PREPARE_ABORT,
    (TransactionState.COMPLETE_ABORT, Event.ABORT_WITHOUT_PARTITIONS): TransactionState.PREPARE_ABORT,
    (TransactionState.PREPARE_COMMIT, Event.MARKERS_WRITTEN): TransactionState.COMPLETE_COMMIT,
    (TransactionState.PREPARE_ABORT, Event.MARKERS_WRITTEN): TransactionState.COMPLETE_ABORT,
}


def next_state(state: TransactionState, event: Event) -> TransactionState | None:
    """Return the state after *event*; None if *event* is not allowed in *state*."""
    return TRANSITIONS.get((state, event))
