"""Finds the offsets of a batch that cannot be decoded, so that a consumer can skip exactly these offsets.

The header of the batch may be damaged too. So a number in the header is used only if something else confirms
it.
"""

from pyklient.errors import KafkaError
from pyklient.protocol.records.batch_header import RecordBatch
from pyklient.protocol.records.layout import CODEC_BITS, INT64_MAX, batch_end

__all__ = ["damaged_offsets"]


def damaged_offsets(
    buffer: memoryview, at: int, position: int, end: int | None = None
) -> tuple[int, int] | None:
    """Return the first unread offset of the batch at byte *at* of *buffer*, and the offset after the batch.
    Return None if it is not possible to tell where the batch ends.

    Records before the offset *position* have been read already. The two offsets are the same if these are
    all records of the batch. *end* is the offset at which the log ended when the batch was fetched, if that
    is known: a batch that seems to end after it counts as one whose end is not known.

    The end of the batch is found in the first of these ways that is possible:

    1. The checksum of the batch is right: its header tells the end.
    2. The next batch in *buffer* is intact: the batch ends where the next one begins.
    3. The numbers in the header fit together: the header tells the end.
    """
    try:
        after = batch_end(buffer, at)
        if not after:
            return None
        batch = RecordBatch(buffer[at:after])
    except KafkaError:
        return None
    last = batch.last_offset
    if not _is_intact(batch):
        following = _intact_offset(buffer, after)
        if following is not None:
            last = max(following, position) - 1
        elif not _fits_together(batch):
            return None
    if not position - 1 <= last < (INT64_MAX if end is None else end):
        return None
    first = _first_offset(batch)
    return first if position < first <= last else position, last + 1


def _intact_offset(buffer: memoryview, at: int) -> int | None:
    """Return the first offset of the batch at byte *at*, or None if that batch is missing or damaged."""
    try:
        if end := batch_end(buffer, at):
            batch = RecordBatch(buffer[at:end])
            batch.verify()
            return batch.base_offset
    except KafkaError:
        pass
    return None


def _is_intact(batch: RecordBatch) -> bool:
    try:
        batch.verify()
    except KafkaError:
        return False
    return True


def _fits_together(batch: RecordBatch) -> bool:
    """Return True if the header of *batch* is plausible, although the checksum of the batch is wrong."""
    if batch.magic < 2:
        return True  # the checksum does not cover the offset, so a wrong one says nothing about it
    return batch.base_offset >= 0 and batch.count == batch.last_offset - batch.base_offset + 1


def _first_offset(batch: RecordBatch) -> int:
    """Return the first offset of *batch*, or -1 for a compressed message of record format 0 or 1, whose
    header has only the last offset."""
    if batch.magic == 2:
        return batch.base_offset
    return -1 if batch.attributes & CODEC_BITS else batch.last_offset
