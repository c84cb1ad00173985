"""The sparse index of a segment: it maps offsets to positions in the segment file, for some of the batches.

Each entry has Kafka's format, two big-endian int32: the last offset of a batch, relative to the segment's
base offset, and the position of the batch. The entries are in ascending order. The index is held in memory
for lookups, and also stored on disk, so that Kafka's own tools can read it.
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
    """The index of one segment: a map from relative offsets to positions in the segment file, in ascending
    order."""

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
        """All entries as pairs of relative offset and position, in ascending order."""
        return list(zip(self._offsets, self._positions, strict=True))

    @property
    def full(self) -> bool:
        return len(self._offsets) >= self._max_entries

    @property
    def unindexed_bytes(self) -> int:
        """The number of bytes in the segment from the beginning of the last indexed batch to the end."""
        return self._unindexed

    def add_batch(self, relative_offset: int, position: int, size: int, *, to_disk: bool = True) -> None:
        """Count the bytes of a new batch, and add an index entry for this batch if an entry is due.
        *relative_offset* is the offset of the batch's last record, relative to the segment's base offset.

        As in Kafka, an entry is due if more than ``interval_bytes`` were written since the last entry. If
        *to_disk* is false, the entry is added in memory only. Raises OSError if the file cannot be written;
        the entry is then not added.
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
        """Return the position of the last indexed batch that ends at *relative_offset* or before; 0 if there
        is no such batch."""
        at = bisect_right(self._offsets, relative_offset)
        return self._positions[at - 1] if at else 0

    def boundary(self, position: int) -> int:
        """Return the position of the last indexed batch that begins at *position* or before; 0 if there is no
        such batch."""
        at = bisect_right(self._positions, position)
        return self._positions[at - 1] if at else 0

    def load(self, entries: int, unindexed_bytes: int) -> bool:
        """Read the entries from the index file.

        *unindexed_bytes* is the number of bytes in the segment from the beginning of the last indexed batch
        to the end. If the file does not have exactly *entries* entries, return False and change nothing.
        """
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
        """Write the entries in memory to the file, after recovery has rebuilt them."""
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
