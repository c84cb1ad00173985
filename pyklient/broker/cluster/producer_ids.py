"""Producer ids: each id is given to one idempotent producer only, even across restarts."""

from typing import Final

__all__ = ["ProducerIds"]

_BLOCK: Final = 1_000


class ProducerIds:
    """Gives producer ids in ascending order. ``reserved`` is the first id that may be given after the next
    start; it must be saved.

    Ids are reserved in blocks, as in Kafka, so that the file is not written for every new producer.
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
