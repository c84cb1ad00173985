"""A segment of a partition's log: a file of batches, and its indexes.

The files are named after the offset of the first record. Batches are only appended, and are written to the
file before the producer gets its response. Therefore they survive a crash of the process. As with Kafka's
defaults they are not synced to the disk, so a crash of the machine may lose the newest batches.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from pyklient.broker.log.batch_headers import BatchHeader, read_headers
from pyklient.broker.log.clean_shutdown import SegmentState
from pyklient.broker.log.offset_index import OffsetIndex
from pyklient.broker.log.transaction_index import TransactionIndex
from pyklient.protocol.primitives import Buffer

__all__ = ["FileSlice", "Segment"]


class FileSlice:
    """A range of bytes in a segment file, which can be sent with ``sendfile`` without being read into
    memory.

    The offsets of all records in the range are below ``end_offset``.
    """

    __slots__ = ("_segment", "end_offset", "length", "position")

    def __init__(self, segment: "Segment", position: int, length: int, end_offset: int) -> None:
        self._segment = segment
        self.position = position
        self.length = length
        self.end_offset = end_offset

    def open(self) -> int:
        """Return a new file descriptor of the segment file. The slice can be sent from it even if the topic
        is deleted meanwhile."""
        return os.dup(self._segment.descriptor())

    def read(self) -> bytes:
        return self._segment.read(self.position, self.length)


class Segment:
    """A segment: the files ``<base offset>.log``, ``.index`` and ``.txnindex`` in *directory*. They are
    opened when they are first used."""

    def __init__(
        self, directory: Path, base_offset: int, *, index_interval_bytes: int, index_max_bytes: int
    ) -> None:
        self.base_offset = base_offset
        self.path = directory / f"{base_offset:020d}.log"
        self.index = OffsetIndex(
            self.path.with_suffix(".index"), interval_bytes=index_interval_bytes, max_bytes=index_max_bytes
        )
        self.transactions = TransactionIndex(self.path.with_suffix(".txnindex"))
        self.size = 0
        self.last_offset = base_offset - 1
        self.max_timestamp = -1
        self._fd: int | None = None

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1

    def append(self, data: Buffer, last_offset: int, max_timestamp: int) -> None:
        """Append *data*, which consists of encoded batches. *last_offset* and *max_timestamp* are the
        largest offset and timestamp of its records.

        Raises OSError if the file cannot be written; the file is then as it was before.
        """
        view = memoryview(data)
        written = 0
        fd = self.descriptor()
        try:
            while written < len(view):
                written += os.write(fd, view[written:])
            self._count(last_offset, max_timestamp, len(view))
        except OSError:
            os.ftruncate(fd, self.size)
            raise

    def state(self) -> SegmentState:
        """Return the state of the segment. With this state, :meth:`restore` can open the segment without
        reading the whole file."""
        return SegmentState(
            self.base_offset,
            self.size,
            self.last_offset,
            self.max_timestamp,
            len(self.index),
            self.index.unindexed_bytes,
            len(self.transactions.entries),
        )

    def restore(self, state: SegmentState) -> bool:
        """Open the segment with *state*, which a clean shutdown has saved. Return False if the files do not
        match *state*.

        Only the indexes and the batches from the last indexed batch on are read. These batches must be valid,
        and the last of them must end at the end of the file.
        """
        try:
            size = os.stat(self.path).st_size
        except FileNotFoundError:
            size = 0
        if size != state.size or not self.index.load(state.index_entries, state.unindexed_bytes):
            return False
        if not self.transactions.load(state.aborted_transactions):
            return False
        if size:
            end = (0, self.base_offset - 1)
            for header in read_headers(self.descriptor(), self.index.boundary(size), size, verify=True):
                end = (header.end, header.last_offset)
            if end != (size, state.last_offset):
                return False
        self.size, self.last_offset, self.max_timestamp = size, state.last_offset, state.max_timestamp
        return True

    def recover(self) -> Iterator[BatchHeader]:
        """Read and check the whole segment file, and yield the header of each valid batch.

        The bytes after the last valid batch are cut off, and the offset index is built again. The caller
        builds the transaction index.
        """
        fd = self.descriptor()
        end = os.fstat(fd).st_size
        for header in read_headers(fd, 0, end, verify=True):
            if header.last_offset <= self.last_offset:
                break
            self._count(header.last_offset, header.max_timestamp, header.size, to_disk=False)
            yield header
        if self.size < end:
            os.ftruncate(fd, self.size)
        self.index.rewrite()

    def headers_from(self, offset: int) -> Iterator[BatchHeader]:
        """Yield the headers of the batches from *offset* on. The first headers may be of batches before
        *offset*, because the index does not have every batch."""
        return self.headers(self.index.floor(max(0, offset - self.base_offset)))

    def headers(self, position: int = 0) -> Iterator[BatchHeader]:
        """Yield the headers of all batches from *position* on. A batch must begin at *position*."""
        return read_headers(self.descriptor(), position, self.size) if position < self.size else iter(())

    def end_before(self, offset: int) -> int:
        """Return the position in the file at which the last batch before *offset* ends."""
        if offset >= self.next_offset:
            return self.size
        return next(header.position for header in self.headers_from(offset) if header.last_offset >= offset)

    def read(self, position: int, length: int) -> bytes:
        return os.pread(self.descriptor(), length, position)

    def descriptor(self) -> int:
        if self._fd is None:
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            self.index.path.touch()
        return self._fd

    def modified_ms(self) -> int:
        """Return the time at which the segment file was last written, in milliseconds since 1970."""
        return os.fstat(self.descriptor()).st_mtime_ns // 1_000_000

    def close(self) -> None:
        self.index.close()
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def delete(self) -> None:
        self.close()
        self.unlink()

    def unlink(self) -> None:
        """Remove the files of the segment from its directory. Responses can still
        read files that are already open."""
        self.path.unlink(missing_ok=True)
        self.index.path.unlink(missing_ok=True)
        self.transactions.unlink()

    def _count(self, last_offset: int, max_timestamp: int, size: int, *, to_disk: bool = True) -> None:
        self.index.add_batch(last_offset - self.base_offset, self.size, size, to_disk=to_disk)
        self.size += size
        self.last_offset = last_offset
        self.max_timestamp = max(self.max_timestamp, max_timestamp)
