"""Compaction of a log: a new segment with the newest record of each key replaces the old segments.

The records keep their offsets, so the new segment has gaps. A record without a value, which deletes its key,
is not kept.
"""

from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Final

from pyklient.broker.log.segment import Segment
from pyklient.kernel import encode_batch, read_records
from pyklient.protocol.records import DecodedRecord, NewRecord, iter_batches

__all__ = ["read_segments", "write_compacted"]

_RECORDS_PER_BATCH: Final = 1_000
_RECORDS_PER_STEP: Final = 1_000


def read_segments(segments: Iterable[Segment]) -> Generator[list[DecodedRecord]]:
    """Yield the records of *segments* in order, one list for each batch."""
    for segment in segments:
        for header in segment.headers():
            for batch in iter_batches(segment.read(header.position, header.size)):
                yield read_records(batch)


def write_compacted(segments: Iterable[Segment], path: Path) -> Generator[None, None, int]:
    """Write the newest record of each key in *segments* to the new file *path*, and return their number.

    This is a generator, so that a caller with an event loop can do other work between two steps.
    """
    newest: dict[bytes | None, int] = {}
    since_step = 0
    for records in read_segments(segments):
        for record in records:
            newest[record.key] = record.offset
        since_step += len(records)
        if since_step >= _RECORDS_PER_STEP:
            since_step = 0
            yield
    kept: list[DecodedRecord] = []
    count = 0
    with path.open("wb") as file:
        for records in read_segments(segments):
            kept += [each for each in records if each.value is not None and newest[each.key] == each.offset]
            if len(kept) >= _RECORDS_PER_BATCH:
                file.write(_encoded(kept))
                count += len(kept)
                kept.clear()
            since_step += len(records)
            if since_step >= _RECORDS_PER_STEP:
                since_step = 0
                yield
        if kept:
            file.write(_encoded(kept))
    return count + len(kept)


def _encoded(records: list[DecodedRecord]) -> bytes:
    base_offset = records[0].offset
    return encode_batch(
        [NewRecord(each.timestamp_ms, each.key, each.value, each.headers) for each in records],
        base_offset=base_offset,
        offset_deltas=[each.offset - base_offset for each in records],
    )
