"""The high watermark and the last stable offset of a partition: the limits up to which consumers may read.

When they move, fetches that wait for records are woken.
"""

from collections.abc import Callable
from typing import Final

__all__ = ["READ_UNCOMMITTED", "Watermarks"]

READ_UNCOMMITTED: Final = 0
"""The isolation level ``read_uncommitted`` in Fetch and ListOffsets requests: the consumer also reads the
records of open transactions."""


class Watermarks:
    """The high watermark and the last stable offset of one log.

    ``high_watermark`` is the offset after the last record that all replicas have. ``last_stable_offset`` is
    the offset of the first record of the oldest open transaction, or the high watermark if no transaction is
    open.
    """

    __slots__ = ("_listeners", "high_watermark", "last_stable_offset")

    def __init__(self, log_end_offset: int, first_open_offset: int | None = None) -> None:
        self._listeners: set[Callable[[], object]] = set()
        self.advance(log_end_offset, first_open_offset)

    def advance(self, log_end_offset: int, first_open_offset: int | None = None) -> None:
        """Move the high watermark to *log_end_offset* and the last stable offset to *first_open_offset*, the
        first offset of the oldest open transaction. Wake the fetches that wait for records.

        The high watermark is the end of the log, because there is only one replica. If *first_open_offset*
        is None, the last stable offset is also the end of the log.
        """
        self.high_watermark = log_end_offset
        self.last_stable_offset = log_end_offset if first_open_offset is None else first_open_offset
        if self._listeners:
            self.wake()

    def limit(self, isolation_level: int) -> int:
        """Return the offset before which a consumer with *isolation_level* may read."""
        return self.high_watermark if isolation_level == READ_UNCOMMITTED else self.last_stable_offset

    def on_advance(self, listener: Callable[[], object]) -> None:
        """Call *listener* once, when new records can be read or the log is deleted."""
        self._listeners.add(listener)

    def off_advance(self, listener: Callable[[], object]) -> None:
        """Remove *listener*, which was added with ``on_advance``."""
        self._listeners.discard(listener)

    def wake(self) -> None:
        """Call all listeners that were added with ``on_advance``, and remove them."""
        listeners, self._listeners = self._listeners, set()
        for listener in listeners:
            listener()
