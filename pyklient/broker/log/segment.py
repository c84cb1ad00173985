"""One file of a partition's log, and the index beside it.

A segment is named by the offset of its first record and only ever appended to. Bytes are written to the
file before anyone is told, so they outlive the process (the page cache keeps them); they are not synced
to the disk, as with Kafka's defaults, so a crash of the machine may lose the newest.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from pyklient.broker.log.batch_headers import BatchFacts, walk
from pyklient.broker.log.clean_shutdown import SegmentState
from pyklient.broker.log.offset_index import OffsetIndex
from pyklient.protocol.primitives import Buffer

__all__ = ["FileSlice", "Segment"]


class FileSlice:
    """A run of bytes in a segment file, to be sent as it stands."""

    __slots__ = ("_segment", "length", "position")

    def __init__(self, segment: "Segment", position: int, length: int) -> None:
        self._segment = segment
        self.position = position
        self.length = length

    def open(self) -> int:
        """A file descriptor of its own: the slice can be sent even if its topic is deleted meanwhile."""
        return os.dup(self._segment.descriptor())

    def read(self) -> bytes:
        return self._segment.read(self.position, self.length)


class Segment:
    """``<base offset>.log`` and ``.index`` in *directory*. Files are opened at the first use."""

    def __init__(
        self, directory: Path, base_offset: int, *, index_interval_bytes: int, index_max_bytes: int
    ) -> None:
        self.base_offset = base_offset
        self.path = directory / f"{base_offset:020d}.log"
        self.index = OffsetIndex(
            self.path.with_suffix(".index"), interval_bytes=index_interval_bytes, max_bytes=index_max_bytes
        )
        self.size = 0
        self.last_offset = base_offset - 1
        self.max_timestamp = -1
        self._fd: int | None = None

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1

    def append(self, data: Buffer, last_offset: int, max_timestamp: int) -> None:
        """Write one run of batches that ends with *last_offset*. On OSError nothing of it is left behind."""
        view = memoryview(data)
        written = 0
        fd = self.descriptor()
        try:
            while written < len(view):
                written += os.write(fd, view[written:])
            self._note(last_offset, max_timestamp, len(view))
        except OSError:
            os.ftruncate(fd, self.size)
            raise

    def state(self) -> SegmentState:
        """What :meth:`adopt` needs to take up the file again."""
        return SegmentState(
            self.base_offset,
            self.size,
            self.last_offset,
            self.max_timestamp,
            len(self.index),
            self.index.unindexed_bytes,
        )

    def adopt(self, state: SegmentState) -> bool:
        """Take up the file as a clean stop has left it; False where file or index are not as *state* says.

        Reads the index, and of the file only what follows the index's last entry: those batches must be
        sound and end where the file ends.
        """
        try:
            size = os.stat(self.path).st_size
        except FileNotFoundError:
            size = 0
        if size != state.size or not self.index.load(state.index_entries, state.unindexed_bytes):
            return False
        if size:
            end = (0, self.base_offset - 1)
            for facts in walk(self.descriptor(), self.index.boundary(size), size, verify=True):
                end = (facts.end, facts.last_offset)
            if end != (size, state.last_offset):
                return False
        self.size, self.last_offset, self.max_timestamp = size, state.last_offset, state.max_timestamp
        return True

    def recover(self) -> Iterator[BatchFacts]:
        """Read the whole file, yielding its headers; cut off what follows the last sound batch.

        The index is built anew. Returns (by ``size`` and ``last_offset``) the state that the file supports.
        """
        fd = self.descriptor()
        end = os.fstat(fd).st_size
        for facts in walk(fd, 0, end, verify=True):
            if facts.last_offset <= self.last_offset:
                break
            self._note(facts.last_offset, facts.max_timestamp, facts.size, to_disk=False)
            yield facts
        if self.size < end:
            os.ftruncate(fd, self.size)
        self.index.rewrite()

    def walk_from(self, offset: int) -> Iterator[BatchFacts]:
        """Headers, from the place the index gives for *offset*: the first ones may lie before it."""
        return self.walk(self.index.floor(max(0, offset - self.base_offset)))

    def walk(self, position: int) -> Iterator[BatchFacts]:
        """Headers, from *position* (the beginning of a batch) to the end of the file."""
        return walk(self.descriptor(), position, self.size) if position < self.size else iter(())

    def read(self, position: int, length: int) -> bytes:
        return os.pread(self.descriptor(), length, position)

    def descriptor(self) -> int:
        if self._fd is None:
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            self.index.path.touch()
        return self._fd

    def modified_ms(self) -> int:
        """When the file was last written, milliseconds since 1970."""
        return os.fstat(self.descriptor()).st_mtime_ns // 1_000_000

    def close(self) -> None:
        self.index.close()
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def delete(self) -> None:
        self.close()
        self.path.unlink(missing_ok=True)
        self.index.path.unlink(missing_ok=True)

    def _note(self, last_offset: int, max_timestamp: int, size: int, *, to_disk: bool = True) -> None:
        self.index.note(last_offset - self.base_offset, self.size, size, to_disk=to_disk)
        self.size += size
        self.last_offset = last_offset
        self.max_timestamp = max(self.max_timestamp, max_timestamp)
