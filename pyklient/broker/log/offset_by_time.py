"""Finds offsets by time in the segments of a log, for ListOffsets."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from pyklient.broker.log.batch_headers import BatchHeader
from pyklient.broker.log.segment import Segment
from pyklient.kernel import read_records
from pyklient.protocol.records import iter_batches

__all__ = [
    "EARLIEST",
    "EARLIEST_LOCAL",
    "LATEST",
    "LATEST_TIERED",
    "MAX_TIMESTAMP",
    "OffsetAndTimestamp",
    "first_since",
    "newest_record",
    "segment_offsets_before",
]

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5


class OffsetAndTimestamp(NamedTuple):
    """The offset of a record, and its timestamp."""

    offset: int
    timestamp_ms: int


def first_since(segments: Sequence[Segment], timestamp_ms: int) -> OffsetAndTimestamp | None:
    """Return the first record whose timestamp is *timestamp_ms* or later. Return None if there is no such
    record."""
    for segment in segments:
        if segment.max_timestamp < timestamp_ms:
            continue
        for header in segment.headers():
            if header.max_timestamp >= timestamp_ms:
                found = _first_in(segment, header, timestamp_ms)
                if found is not None:
                    return found
    return None


def newest_record(segments: Sequence[Segment]) -> OffsetAndTimestamp | None:
    """Return the record with the largest timestamp: the first one if there are several. Return None if there
    are no records."""
    segment = max(segments, key=lambda segment: segment.max_timestamp)
    return first_since(segments, segment.max_timestamp) if segment.size else None


def segment_offsets_before(
    segments: Sequence[Segment], timestamp_ms: int, max_offsets: int, now_ms: int
) -> list[int]:
    """Return the base offsets of the segments that were last written at *timestamp_ms* or before, with the
    newest first. *timestamp_ms* may also be LATEST for all segments, or EARLIEST for the first one.

    This is the answer to ListOffsets version 0. It has at most *max_offsets* offsets. The end of the log
    counts as the base offset of one more segment, which was written at *now_ms*.
    """
    times = [(segment.base_offset, segment.modified_ms()) for segment in segments]
    if segments[-1].size:
        times.append((segments[-1].next_offset, now_ms))
    if timestamp_ms == LATEST:
        newest = len(times) - 1
    elif timestamp_ms == EARLIEST:
        newest = 0
    else:
        newest = max((at for at, (_, time) in enumerate(times) if time <= timestamp_ms), default=-1)
    count = min(max_offsets, newest + 1)
    return [offset for offset, _ in reversed(times[newest + 1 - count : newest + 1])] if count > 0 else []


def _first_in(segment: Segment, header: BatchHeader, timestamp_ms: int) -> OffsetAndTimestamp | None:
    for batch in iter_batches(segment.read(header.position, header.size)):
        for record in read_records(batch):
            if record.timestamp_ms >= timestamp_ms:
                return OffsetAndTimestamp(record.offset, record.timestamp_ms)
    return None
