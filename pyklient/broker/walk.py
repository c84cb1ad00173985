"""Walking over a segment file batch by batch, reading no more than the headers.

A position in a file says nothing by itself: batches are of any size, and only the header of one tells
where the next begins. Compressed or not, no record is touched here.
"""

import os
from collections.abc import Iterator
from typing import NamedTuple

from pyklient.errors import ProtocolError
from pyklient.protocol.records import iter_batches

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
    count: int

    @property
    def end(self) -> int:
        return self.position + self.size

    @property
    def is_control(self) -> bool:
        return self.magic == 2 and bool(self.attributes & 0x20)


def walk(fd: int, start: int, end: int, *, verify: bool = False) -> Iterator[BatchFacts]:
    """Each whole, well-formed batch of the file from *start* on; stops before the first that is not.

    With *verify* the checksums count too, so the batches are read whole.
    """
    chunk = b""
    chunk_at = position = start
    while position < end:
        inside = position - chunk_at
        if inside + _LEAST[2] > len(chunk) and chunk_at + len(chunk) < end or inside >= len(chunk):
            chunk = os.pread(fd, min(_CHUNK, end - position), position)
            chunk_at, inside = position, 0
        facts = _facts(chunk, inside, position, end)
        if facts is None or (verify and not _sound(fd, facts)):
            return
        yield facts
        position = facts.end


def _facts(chunk: bytes, at: int, position: int, end: int) -> BatchFacts | None:
    if len(chunk) - at < _LEAST[0]:
        return None
    offset, length, _, magic = _LEAD.unpack_from(chunk, at)
    size = length + _OVERHEAD
    least = _LEAST.get(magic)
    if least is None or size < least or position + size > end or offset < 0 or len(chunk) - at < least:
        return None
    if magic < 2:
        attributes, timestamp = _V1.unpack_from(chunk, at + 17) if magic else (chunk[at + 17], -1)
        return BatchFacts(position, size, magic, offset, offset, timestamp, attributes, -1, -1, -1, -1)
    attributes, delta, _, max_timestamp, producer, epoch, sequence, count = _V2.unpack_from(chunk, at + 21)
    if delta < 0 or count < 0:
        return None
    last = offset + delta
    return BatchFacts(
        position, size, magic, offset, last, max_timestamp, attributes, producer, epoch, sequence, count
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
