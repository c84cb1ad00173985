"""Divides the records of a fetch response into runs of whole batches that have the same leader epoch."""

from typing import NamedTuple

from pyklient.consumer.read_epochs import leader_epoch_at
from pyklient.errors import CorruptRecordError
from pyklient.protocol.records import RecordBatch
from pyklient.protocol.records.batch_header import batch_end

__all__ = ["BatchRun", "whole_batches"]


class BatchRun(NamedTuple):
    """Whole batches with the same leader epoch, one after another: from the byte *start* up to *end*.
    *next_offset* is the offset after the last of them."""

    start: int
    end: int
    next_offset: int
    leader_epoch: int


def whole_batches(records: memoryview) -> list[BatchRun]:
    """Return the whole batches in *records*. The list is empty if there is none.

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
    epoch = leader_epoch_at(records, 0)
    if not last or epoch == leader_epoch_at(records, last):
        # Leader epochs never fall from one batch to the next, so those in between are the same.
        return [BatchRun(0, position, RecordBatch(records[last:position]).next_offset, epoch)]
    return _by_leader_epoch(records[:position])


def _by_leader_epoch(records: memoryview) -> list[BatchRun]:
    """Divide *records*, which consist of whole batches, into runs with the same leader epoch."""
    runs: list[BatchRun] = []
    position = 0
    while end := batch_end(records, position):
        epoch, after = leader_epoch_at(records, position), RecordBatch(records[position:end]).next_offset
        start = position
        if runs and runs[-1].leader_epoch == epoch:
            start = runs.pop().start
        runs.append(BatchRun(start, end, after, epoch))
        position = end
    return runs
