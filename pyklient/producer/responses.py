"""What the broker's answer for one partition means for the records it is about."""

from enum import Enum, auto
from typing import Final

from pyklient.errors import error_facts

__all__ = ["Action", "is_certainly_not_stored", "action_for"]


class Action(Enum):
    """What is to be done."""

    STORED = auto()
    RETRY = auto()
    """The failure may pass: send the very same again."""
    OUT_OF_SEQUENCE = auto()
    """Not stored, because something before it is missing, or the broker has forgotten this producer."""
    TOO_LARGE = auto()
    """Not stored; half of it may be."""
    NO_PRODUCER_IDS = auto()
    """Not stored, because the topic's record format is too old for idempotence."""
    REFUSED = auto()


_NONE: Final = 0
_DUPLICATE_SEQUENCE_NUMBER: Final = 46

_BY_CODE: Final = {
    _NONE: Action.STORED,
    # Stored long ago, by an attempt whose answer was lost; the broker does not know the offset any more.
    _DUPLICATE_SEQUENCE_NUMBER: Action.STORED,
    10: Action.TOO_LARGE,  # MESSAGE_TOO_LARGE (KIP-126)
    18: Action.TOO_LARGE,  # RECORD_LIST_TOO_LARGE
}

_OF_PRODUCER_IDS: Final = {
    43: Action.NO_PRODUCER_IDS,  # UNSUPPORTED_FOR_MESSAGE_FORMAT
    45: Action.OUT_OF_SEQUENCE,  # OUT_OF_ORDER_SEQUENCE_NUMBER
    47: Action.OUT_OF_SEQUENCE,  # INVALID_PRODUCER_EPOCH: an id without transactions is nobody else's
    59: Action.OUT_OF_SEQUENCE,  # UNKNOWN_PRODUCER_ID
}

_REFUSED_BEFORE_STORING: Final = frozenset(
    (
        2,  # CORRUPT_MESSAGE
        3,  # UNKNOWN_TOPIC_OR_PARTITION
        5,  # LEADER_NOT_AVAILABLE
        10,  # MESSAGE_TOO_LARGE
        17,  # INVALID_TOPIC_EXCEPTION
        18,  # RECORD_LIST_TOO_LARGE
        19,  # NOT_ENOUGH_REPLICAS; its brother 20 comes after storing
        21,  # INVALID_REQUIRED_ACKS
        29,  # TOPIC_AUTHORIZATION_FAILED
        31,  # CLUSTER_AUTHORIZATION_FAILED
        32,  # INVALID_TIMESTAMP
        35,  # UNSUPPORTED_VERSION
        42,  # INVALID_REQUEST
        44,  # POLICY_VIOLATION
        76,  # UNSUPPORTED_COMPRESSION_TYPE
        87,  # INVALID_RECORD
        89,  # THROTTLING_QUOTA_EXCEEDED
        *_OF_PRODUCER_IDS,
    )
)
"""NOT_LEADER_OR_FOLLOWER is not among them: a leader that steps down while it waits for its followers says
so of records that they may have."""


def is_certainly_not_stored(code: int) -> bool:
    """Whether an error *code* says that none of the records have been stored. Others leave it in doubt."""
    return code in _REFUSED_BEFORE_STORING


def action_for(code: int, *, idempotent: bool) -> Action:
    """The action for an error *code* on records with, or without, a producer id."""
    action = _BY_CODE.get(code) or (_OF_PRODUCER_IDS.get(code) if idempotent else None)
    if action is not None:
        return action
    return Action.RETRY if error_facts(code).retriable else Action.REFUSED
