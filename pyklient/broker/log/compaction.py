"""Compaction of a log: a new segment with the newest record of each key replaces the old segments.

The records keep their offsets, so the new segment has gaps. A record without a value, which deletes its key,
is not kept, and neither are the records of aborted transactions. All transactions in the old segments must
have ended. The records of committed transactions are stored like other records, so they need no transaction
marker. Only the last marker of each producer is kept, because it has the producer's epoch.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final

from pyklient.broker.log.producer_state import ProducerStates
from pyklient.broker.log.segment import Segment
from pyklient.broker.log.transaction_index import AbortedTransaction
from pyklient.kernel import encode_batch, read_records
from pyklient.protocol.records import DecodedRecord, NewRecord, RecordBatch, iter_batches

__all__ = ["read_segments", "write_compacted"]

_RECORDS_PER_BATCH: Final = 1_000
_RECORDS_PER_STEP: Final = 1_000


def read_segments(segments: Iterable[Segment]) -> Iterator[tuple[RecordBatch, list[DecodedRecord]]]:
    """Yield the batches of *segments* in order, each with its records."""
    for segment in segments:
        for header in segment.headers():
            for batch in iter_batches(segment.read(header.position, header.size)):
                yield batch, read_records(batch)


def write_compacted(
    segments: Sequence[Segment],
    aborted: Iterable[AbortedTransaction],
    producers: ProducerStates,
    path: Path,
) -> Generator[None, None, int]:
    """Write the newest record of each key in *segments* to the new file *path*. Return the number of records
    in the file, including transaction markers.

    *aborted* are the aborted transactions of *segments*. Transaction markers are kept only for the producers
    in *producers*. This is a generator, so that an event loop can do other work between two steps.
    """
    skipped = _AbortedRecords(aborted)
    newest: dict[bytes | None, int] = {}
    last_markers: dict[int, int] = {}
    since_step = 0
    for batch, records in read_segments(segments):
        if batch.is_control:
            last_markers[batch.producer_id] = batch.last_offset
        elif batch not in skipped:
            for record in records:
                newest[record.key] = record.offset
        since_step += len(records)
        if since_step >= _RECORDS_PER_STEP:
            since_step = 0
            yield
    kept: list[DecodedRecord] = []
    count = 0
    with path.open("wb") as file:
        for batch, records in read_segments(segments):
            if batch.is_control:
                if batch.producer_id in producers and last_markers[batch.producer_id] == batch.last_offset:
                    count += _write(kept, file) + len(records)
                    file.write(batch.buffer)
            elif batch not in skipped:
                kept += [
                    each for each in records if each.value is not None and newest[each.key] == each.offset
                ]
            if len(kept) >= _RECORDS_PER_BATCH:
                count += _write(kept, file)
            since_step += len(records)
            if since_step >= _RECORDS_PER_STEP:
                since_step = 0
                yield
        count += _write(kept, file)
    return count


class _AbortedRecords:
    """The batches of the aborted *transactions*. The operator ``in`` tells if a batch is one of them."""

    def __init__(self, transactions: Iterable[AbortedTransaction]) -> None:
        self._spans: dict[int, list[tuple[int, int]]] = {}
        for each in transactions:
            self._spans.setdefault(each.producer_id, []).append((each.first_offset, each.last_offset))

    def __contains__(self, batch: RecordBatch) -> bool:
        return batch.is_transactional and any(
            first <= batch.last_offset < last for first, last in self._spans.get(batch.producer_id, ())
        )


def _write(records: list[DecodedRecord], file: BinaryIO) -> int:
    """Write *records* to *file* as one batch, and remove them from the list. Return their number."""
    count = len(records)
    if records:
        base_offset = records[0].offset
        file.write(
            encode_batch(
                [NewRecord(each.timestamp_ms, each.key, each.value, each.headers) for each in records],
                base_offset=base_offset,
                offset_deltas=[each.offset - base_offset for each in records],
            )
        )
        records.clear()
    return count
