"""Reads the headers of the batches in a segment file, one after the other.

Batches differ in size, and only the header of a batch tells where the next batch begins. Therefore reading
must start at the beginning of a batch. The records themselves are not read.
"""

import os
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from pyklient.errors import ProtocolError
from pyklient.protocol.records import iter_batches
from pyklient.protocol.records.layout import (
    BATCH,
    BATCH_SIZE,
    CONTROL_BIT,
    LEAD,
    LEAD_SIZE,
    LEAST,
    OVERHEAD,
    TRANSACTIONAL_BIT,
)

__all__ = ["BatchHeader", "read_headers"]

_CHUNK = 64 << 10
_ENTRY_TIMESTAMP = Struct(">q")


class BatchHeader(NamedTuple):
    """The header of a stored batch, and the position of the batch in the file.

    The header of a batch of format 0 or 1 contains only the last offset. In this case, ``base_offset`` is
    equal to ``last_offset``.
    """

    position: int
    size: int
    magic: int
    base_offset: int
    last_offset: int
    max_timestamp: int
    attributes: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def end(self) -> int:
        """The position in the file at which the batch ends."""
        return self.position + self.size

    @property
    def is_control(self) -> bool:
        return self.magic == 2 and bool(self.attributes & CONTROL_BIT)

    @property
    def is_transactional(self) -> bool:
        """True if the batch is part of a transaction, or is the control batch that ends one."""
        return self.magic == 2 and bool(self.attributes & TRANSACTIONAL_BIT)


def read_headers(fd: int, start: int, end: int, *, verify: bool = False) -> Iterator[BatchHeader]:
    """Yield the header of each batch between the positions *start* and *end*. Stop at the first batch that is
    incomplete or malformed.

    If *verify* is true, each batch is read as a whole, and a batch with a wrong checksum counts as malformed.
    """
    chunk = b""
    chunk_at = position = start
    while position < end:
        inside = position - chunk_at
        cut = inside + BATCH_SIZE > len(chunk) and chunk_at + len(chunk) < end
        if cut or inside >= len(chunk):
            chunk = os.pread(fd, min(_CHUNK, end - position), position)
            chunk_at, inside = position, 0
        header = _header(chunk, inside, position, end)
        if header is None or (verify and not _is_valid(fd, header)):
            return
        yield header
        position = header.end


def _header(chunk: bytes, at: int, position: int, end: int) -> BatchHeader | None:
    if len(chunk) - at < LEAD_SIZE:
        return None
    offset, length, _, magic = LEAD.unpack_from(chunk, at)
    size = length + OVERHEAD
    if not 0 <= magic < len(LEAST) or offset < 0:
        return None
    if size < LEAST[magic] or position + size > end or len(chunk) - at < LEAST[magic]:
        return None
    if magic < 2:
        (timestamp,) = _ENTRY_TIMESTAMP.unpack_from(chunk, at + LEAD_SIZE + 1) if magic else (-1,)
        return BatchHeader(
            position, size, magic, offset, offset, timestamp, chunk[at + LEAD_SIZE], -1, -1, -1, -1
        )
    _, _, _, _, _, attributes, delta, _, newest, producer, epoch, sequence, count = BATCH.unpack_from(
        chunk, at
    )
    if delta < 0 or count < 0:
        return None
    return BatchHeader(
        position, size, magic, offset, offset + delta, newest, attributes, producer, epoch, sequence, count
    )


def _is_valid(fd: int, header: BatchHeader) -> bool:
    data = os.pread(fd, header.size, header.position)
    try:
        for batch in iter_batches(data):
            batch.verify()
            return batch.size == header.size
    except ProtocolError:
        pass
    return False
