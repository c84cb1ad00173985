"""Divides the records of a fetch response into groups. A group has consecutive whole batches whose leader
epoch is the same.

``batch_headers.pxi`` must behave exactly as this module.
"""

from typing import Final, NamedTuple

from pyklient.errors import CorruptRecordError
from pyklient.protocol.records.batch_header import RecordBatch
from pyklient.protocol.records.layout import LEADER_EPOCH_AT, MAGIC_AT, batch_end

__all__ = ["BatchRun", "whole_batches"]

_NO_EPOCH: Final = -1
"""The leader epoch of entries of formats 0 and 1, which have none."""


class BatchRun(NamedTuple):
    """Whole batches with the same leader epoch, one after another: from the byte *start* up to *end*.
    *next_offset* is the offset after the last of them."""

    start: int
    end: int
    next_offset: int
    leader_epoch: int


def whole_batches(records: memoryview) -> list[BatchRun]:
    """Return the whole batches in *records*, in groups of batches with the same leader epoch. The list is
    empty if there is no whole batch.

    If *records* contain bytes that are not a batch, only the batches before these bytes are returned. Raises
    CorruptRecordError if *records* begin with such bytes.
    """
    last = position = 0
    try:
        while end := batch_end(records, position):
            last, position = position, end
    except CorruptRecordError:
        if not position:
            raise
    if not position:
        return []
    epoch = _leader_epoch_at(records, 0)
    if not last or epoch == _leader_epoch_at(records, last):
        # Leader epochs never fall from one batch to the next, so those in between are the same.
        return [BatchRun(0, position, RecordBatch(records[last:position]).next_offset, epoch)]
    return _by_leader_epoch(records[:position])


def _by_leader_epoch(records: memoryview) -> list[BatchRun]:
    """Divide *records*, which consist of whole batches, into groups of batches with the same leader epoch."""
    runs: list[BatchRun] = []
    position = 0
    while end := batch_end(records, position):
        epoch, after = _leader_epoch_at(records, position), RecordBatch(records[position:end]).next_offset
        start = position
        if runs and runs[-1].leader_epoch == epoch:
            start = runs.pop().start
        runs.append(BatchRun(start, end, after, epoch))
        position = end
    return runs


def _leader_epoch_at(records: memoryview, position: int) -> int:
    """Return the leader epoch of the batch at byte *position*."""
    if records[position + MAGIC_AT] < 2:
        return _NO_EPOCH
    at = position + LEADER_EPOCH_AT
    return int.from_bytes(records[at : at + 4], "big", signed=True)
