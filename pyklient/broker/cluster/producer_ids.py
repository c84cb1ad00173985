"""Producer ids: each is given to one idempotent producer only, also across restarts."""

from typing import Final

__all__ = ["ProducerIds"]

_BLOCK: Final = 1_000


class ProducerIds:
    """Counts producer ids up. ``reserved`` is the first id that the next start may give, and must be saved.

    Ids are reserved in blocks, as in Kafka, so that not every new producer causes a write.
    """

    def __init__(self, first: int) -> None:
        self.reserved = first
        self._next = first

    def new(self) -> int:
        """Return an id that no producer has had before."""
        if self._next >= self.reserved:
            self.reserved = self._next + _BLOCK
        producer_id = self._next
        self._next += 1
        return producer_id
