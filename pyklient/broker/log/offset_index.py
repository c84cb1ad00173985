"""The sparse index beside a segment: where in the file to start looking for an offset.

Entries are Kafka's: eight bytes, the offset relative to the segment's first one and the position of the
batch that ends with it, both as big-endian int32, ascending. It is held in memory for look-ups and kept
on disk in step, so that Kafka's own tools can read it.
"""

import os
import sys
from array import array
from bisect import bisect_right
from itertools import chain
from pathlib import Path
from struct import pack

__all__ = ["OffsetIndex"]

_ENTRY_BYTES = 8


class OffsetIndex:
    """Relative offset → file position, ascending in both. Owned by its Segment."""

    def __init__(self, path: Path, *, interval_bytes: int, max_bytes: int) -> None:
        self.path = path
        self._interval = interval_bytes
        self._max_entries = max_bytes // _ENTRY_BYTES
        self._offsets = array("I")
        self._positions = array("I")
        self._unindexed = 0
        self._fd: int | None = None

    def __len__(self) -> int:
        return len(self._offsets)

    @property
    def entries(self) -> list[tuple[int, int]]:
        """(relative offset, position) pairs, ascending."""
        return list(zip(self._offsets, self._positions, strict=True))

    @property
    def full(self) -> bool:
        return len(self._offsets) >= self._max_entries

    def note(self, relative_offset: int, position: int, size: int, *, to_disk: bool = True) -> None:
        """A batch of *size* bytes ending with *relative_offset* now stands at *position*.

        An entry is made once ``interval_bytes`` went by without one, as Kafka does. Where the file cannot be
        written, OSError is raised and nothing is noted.
        """
        if self._unindexed > self._interval and not self.full:
            if to_disk:
                entry = pack(">II", relative_offset, position)
                os.pwrite(self._descriptor(), entry, len(self) * _ENTRY_BYTES)
            self._offsets.append(relative_offset)
            self._positions.append(position)
            self._unindexed = 0
        self._unindexed += size

    def floor(self, relative_offset: int) -> int:
        """Where the last indexed batch that ends at or before *relative_offset* stands, else 0."""
        at = bisect_right(self._offsets, relative_offset)
        return self._positions[at - 1] if at else 0

    def boundary(self, position: int) -> int:
        """The last known start of a batch at or before *position* (0 when none is known)."""
        at = bisect_right(self._positions, position)
        return self._positions[at - 1] if at else 0

    @property
    def unindexed_bytes(self) -> int:
        """Bytes of the segment behind its last entry."""
        return self._unindexed

    def load(self, entries: int, unindexed_bytes: int) -> bool:
        """Read the file's *entries*, and return True, unless it holds more or fewer."""
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            data = b""
        if len(data) != entries * _ENTRY_BYTES:
            return False
        pairs = array("I", data)
        if sys.byteorder == "little":
            pairs.byteswap()
        self._offsets, self._positions = pairs[::2], pairs[1::2]
        self._unindexed = unindexed_bytes
        return True

    def rewrite(self) -> None:
        """Make the file equal to what is in memory, after recovery."""
        data = pack(
            f">{2 * len(self)}I", *chain.from_iterable(zip(self._offsets, self._positions, strict=True))
        )
        if not self.path.exists() or self.path.read_bytes() != data:
            self.close()
            self.path.write_bytes(data)

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _descriptor(self) -> int:
        if self._fd is None:
            self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        return self._fd
