"""The states of a transactional producer, as a table that gives the next state for a state and an event."""

from enum import StrEnum
from types import MappingProxyType
from typing import Final

__all__ = ["ENDED", "TRANSITIONS", "Event", "State"]


class State(StrEnum):
    """The states of a transactional producer."""

    NEW = "new"
    """The producer has no producer id yet."""
    READY = "ready"
    """The producer may begin a transaction."""
    OPEN = "open"
    """A transaction is open: records and offsets may be sent."""
    COMMITTING = "committing"
    """A call of ``commit_transaction`` has begun and has not ended yet."""
    ABORTING = "aborting"
    """A call of ``abort_transaction`` has begun and has not ended yet."""
    FAILED = "failed"
    """The transaction can only be aborted: a record or a request has failed, or an abort was not
    confirmed."""
    UNCONFIRMED = "unconfirmed"
    """The coordinator has not confirmed a commit, and the same commit must be repeated."""
    FENCED = "fenced"
    """Another producer has taken over the transactional id."""
    FATAL = "fatal"
    """An error has occurred from which the producer cannot recover."""


class Event(StrEnum):
    """The events that change the state of a transactional producer."""

    INITIALIZED = "initialized"
    """The coordinator has returned the producer id and epoch."""
    BEGIN = "begin"
    """The program begins a transaction."""
    COMMIT = "commit"
    """The program commits the transaction, or repeats a commit."""
    ABORT = "abort"
    """The program aborts the transaction."""
    CONFIRMED = "confirmed"
    """The coordinator has confirmed the end of the transaction, or the transaction was empty."""
    FAILURE = "failure"
    """A record or a request of the transaction has failed."""
    NOT_SENT = "not sent"
    """The time for a commit was over, or Ctrl-C interrupted the commit, before the coordinator was asked to
    commit."""
    NO_ANSWER = "no answer"
    """The coordinator has not confirmed in time that the transaction has ended."""
    FENCED = "fenced"
    """The coordinator says that another producer has taken over."""
    FATAL = "fatal error"
    """The coordinator has answered with an error from which the producer cannot recover."""


TRANSITIONS: Final = MappingProxyType(
    {
        (State.NEW, Event.INITIALIZED): State.READY,
        (State.NEW, Event.FENCED): State.FENCED,
        (State.NEW, Event.FATAL): State.FATAL,
        (State.READY, Event.BEGIN): State.OPEN,
        (State.OPEN, Event.COMMIT): State.COMMITTING,
        (State.OPEN, Event.ABORT): State.ABORTING,
        (State.OPEN, Event.FAILURE): State.FAILED,
        (State.OPEN, Event.FENCED): State.FENCED,
        (State.OPEN, Event.FATAL): State.FATAL,
        (State.COMMITTING, Event.CONFIRMED): State.READY,
        (State.COMMITTING, Event.NOT_SENT): State.OPEN,
        (State.COMMITTING, Event.FAILURE): State.FAILED,
        (State.COMMITTING, Event.NO_ANSWER): State.UNCONFIRMED,
        (State.COMMITTING, Event.FENCED): State.FENCED,
        (State.COMMITTING, Event.FATAL): State.FATAL,
        (State.UNCONFIRMED, Event.COMMIT): State.COMMITTING,
        (State.FAILED, Event.ABORT): State.ABORTING,
        (State.FAILED, Event.FENCED): State.FENCED,
        (State.FAILED, Event.FATAL): State.FATAL,
        (State.ABORTING, Event.CONFIRMED): State.READY,
        (State.ABORTING, Event.NO_ANSWER): State.FAILED,
        (State.ABORTING, Event.FENCED): State.FENCED,
        (State.ABORTING, Event.FATAL): State.FATAL,
    }
)

ENDED: Final = frozenset((State.FENCED, State.FATAL))
"""The states in which the producer can only be closed."""
