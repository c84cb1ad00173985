"""Walking over a segment file batch by batch, reading no more than the headers.

A position in a file says nothing by itself: batches are of any size, and only the header of one tells
where the next begins. Compressed or not, no record is touched here.
"""

import os
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from pyklient.errors import ProtocolError
from pyklient.protocol.records import iter_batches
from pyklient.protocol.records.layout import BATCH, BATCH_SIZE, CONTROL_BIT, LEAD, LEAD_SIZE, LEAST, OVERHEAD

__all__ = ["BatchFacts", "walk"]

_CHUNK = 64 << 10
_ENTRY_TIMESTAMP = Struct(">q")


class BatchFacts(NamedTuple):
    """A stored batch: its place and its header. Formats 0 and 1 know only their last offset."""

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
        return self.position + self.size

    @property
    def is_control(self) -> bool:
        return self.magic == 2 and bool(self.attributes & CONTROL_BIT)


def walk(fd: int, start: int, end: int, *, verify: bool = False) -> Iterator[BatchFacts]:
    """Each whole, well-formed batch of the file from *start* on; stops before the first that is not.

    With *verify* the checksums count too, so the batches are read whole.
    """
    chunk = b""
    chunk_at = position = start
    while position < end:
        inside = position - chunk_at
        cut = inside + BATCH_SIZE > len(chunk) and chunk_at + len(chunk) < end
        if cut or inside >= len(chunk):
            chunk = os.pread(fd, min(_CHUNK, end - position), position)
            chunk_at, inside = position, 0
        facts = _facts(chunk, inside, position, end)
        if facts is None or (verify and not _sound(fd, facts)):
            return
        yield facts
        position = facts.end


def _facts(chunk: bytes, at: int, position: int, end: int) -> BatchFacts | None:
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
        return BatchFacts(
            position, size, magic, offset, offset, timestamp, chunk[at + LEAD_SIZE], -1, -1, -1, -1
        )
    _, _, _, _, _, attributes, delta, _, newest, producer, epoch, sequence, count = BATCH.unpack_from(
        chunk, at
    )
    if delta < 0 or count < 0:
        return None
    return BatchFacts(
        position, size, magic, offset, offset + delta, newest, attributes, producer, epoch, sequence, count
    )


def _sound(fd: int, facts: BatchFacts) -> bool:
    data = os.pread(fd, facts.size, facts.position)
    try:
        for batch in iter_batches(data):
            batch.verify()
            return batch.size == facts.size
    except ProtocolError:
        pass
    return False
