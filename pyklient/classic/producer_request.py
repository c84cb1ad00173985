"""The part of a produce request for one partition, and the broker's answer for this partition."""

from collections.abc import Sequence
from typing import NamedTuple

from pyklient.errors import BrokerError

__all__ = ["ProducerRequest", "ProducerResponseStatus"]


class ProducerRequest(NamedTuple):
    """Messages for one partition. A SyncProducer sends one or several ProducerRequests in a single produce
    request."""

    topic: str
    partition: int
    messages: Sequence[bytes | None]
    keys: Sequence[bytes | None] | None = None
    """The keys of *messages*, in the same order. None if no message has a key."""


class ProducerResponseStatus(NamedTuple):
    """The answer of a broker for one partition: an error, or the offset of the first message that was
    stored."""

    error: BrokerError | None
    offset: int
