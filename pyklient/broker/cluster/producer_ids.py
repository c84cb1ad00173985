"""Assigns a producer id to each idempotent producer. No id is assigned twice, even after a restart of the
broker."""

from typing import Final

__all__ = ["ProducerIds"]

_BLOCK: Final = 1_000


class ProducerIds:
    """Assigns producer ids in ascending order.

    Ids are reserved in blocks, as in Kafka, so that the broker need not save its metadata for each new
    producer. All ids below ``reserved`` may have been assigned. The caller saves ``reserved``, and passes it
    as *first* after a restart.
    """

    def __init__(self, first: int) -> None:
        self.reserved = first
        self._next = first

    def new(self) -> int:
        """Return a producer id that no producer has had before."""
        if self._next >= self.reserved:
            self.reserved = self._next + _BLOCK
        producer_id = self._next
        self._next += 1
        return producer_id
