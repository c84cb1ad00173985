"""The log of a partition: segment files in one directory.

Records are appended at the end, and can be read from any offset on. A batch is stored in the format and
compression in which the producer sent it; the broker only writes the offsets into it. All methods run on the
broker's event loop.
"""

import logging
import shutil
from bisect import bisect_right
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pyklient.broker.api_errors import ApiError
from pyklient.broker.log.aborted_transactions import aborted_transactions
from pyklient.broker.log.batch_headers import BatchHeader
from pyklient.broker.log.clean_shutdown import LogState
from pyklient.broker.log.compaction import read_segments, write_compacted
from pyklient.broker.log.high_watermark_advance import Watermarks
from pyklient.broker.log.log_config import LogConfig
from pyklient.broker.log.offset_assignment import AssignedRecords, overwrite_offsets, reencode
from pyklient.broker.log.producer_state import ProducerStates
from pyklient.broker.log.record_validation import ValidRecords, validate_records
from pyklient.broker.log.recovery import end_transaction, new_segment, recover_segments, restore_segments
from pyklient.broker.log.retention import expired_segments
from pyklient.broker.log.segment import FileSlice, Segment
from pyklient.broker.log.transaction_markers import TransactionMarker, encode_marker
from pyklient.error_codes import ErrorCode
from pyklient.kernel import encode_batch
from pyklient.protocol.primitives import Buffer
from pyklient.protocol.records import DecodedRecord, NewRecord, RecordBatch

__all__ = ["AppendResult", "LocatedBatch", "PartitionLog", "ProducerIdentity"]

_logger = logging.getLogger("pyklient.broker")

_MAX_RELATIVE_OFFSET = 2**31 - 1
"""The largest relative offset in a segment, because the index stores an offset in four bytes, relative to the
base offset of the segment."""


class AppendResult(NamedTuple):
    """The result of an append: the offset of the first appended record, and the time of the append in
    milliseconds since 1970.

    ``log_append_time_ms`` is -1 if the records kept the producer's timestamps.
    """

    base_offset: int
    log_append_time_ms: int


class ProducerIdentity(NamedTuple):
    """The id of a producer, and its epoch."""

    producer_id: int
    epoch: int


class LocatedBatch(NamedTuple):
    """A batch and its segment: the batch that contains an offset, or the first batch after this offset.

    The search began at the last suitable entry of the sparse index, ``scanned`` bytes before the batch.
    """

    segment: Segment
    batch: BatchHeader
    scanned: int


class PartitionLog:
    """The log of a partition. The constructor opens *directory*, or creates it if it does not exist.

    If the files match *state*, which a clean shutdown has saved, no batches are read. Otherwise all batches
    are read and checked, and the bytes from the first invalid batch on are cut off. ``watermarks`` has the
    limits up to which consumers may read.
    """

    def __init__(
        self, directory: Path, config: LogConfig, *, max_producer_ids: int, state: LogState | None = None
    ) -> None:
        self.directory = directory
        self.config = config
        self.producers = ProducerStates(max_producer_ids)
        directory.mkdir(parents=True, exist_ok=True)
        self._segments = (
            state and restore_segments(directory, config, state, self.producers)
        ) or recover_segments(directory, config, self.producers)
        self.watermarks = Watermarks(self.end_offset, self._first_open_offset())
        self._replaced: list[Segment] = []  # still open, because responses may be reading their files

    @property
    def start_offset(self) -> int:
        """The offset of the first record that is still in the log."""
        return self._segments[0].base_offset

    @property
    def end_offset(self) -> int:
        """The offset that the next appended record will get."""
        return self._segments[-1].next_offset

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._segments)

    @property
    def segments(self) -> tuple[Segment, ...]:
        return tuple(self._segments)

    def state(self) -> LogState:
        """Return the state of the log. With this state, a later PartitionLog can open the log without reading
        its batches."""
        return LogState([segment.state() for segment in self._segments], self.producers.snapshot())

    # Appending

    def validate(self, records: Buffer | None, *, version: int) -> ValidRecords:
        """Check the *records* of a Produce request of *version*. Raises ApiError if they are invalid."""
        return validate_records(
            records,
            version,
            max_message_bytes=self.config.max_message_bytes,
            segment_bytes=self.config.segment_bytes,
        )

    def append(self, records: Buffer | None, *, version: int, now_ms: int) -> AppendResult:
        """Validate the *records* of a Produce request of *version*, and append them as
        :meth:`append_valid` does."""
        return self.append_valid(self.validate(records, version=version), now_ms=now_ms)

    def append_valid(self, valid: ValidRecords, *, now_ms: int) -> AppendResult:
        """Append records that :meth:`validate` has returned. They are in the file when this method returns.

        If an idempotent producer sends a batch again, the batch is not stored again, and the result of the
        first append is returned. Raises ApiError if the records are out of order, and OSError if the file
        cannot be written. In both cases nothing is stored.
        """
        if not valid.batches:
            return AppendResult(-1, -1)
        append_time_ms = now_ms if self.config.log_append_time else None
        if valid.stored_as_is:
            result = self._append_batch(valid.batches[0], append_time_ms)
        else:
            result = self._write(reencode(valid.batches, self.end_offset, append_time_ms), append_time_ms)
        self._advance()
        return result

    def append_own(self, records: Sequence[NewRecord], producer: ProducerIdentity | None = None) -> None:
        """Append *records* of the broker itself, as one batch. They are in the file when this method returns.

        If *producer* is given, the records belong to its transaction. Raises ApiError
        (INVALID_PRODUCER_EPOCH) if the epoch of the producer is too old, and OSError if the file cannot be
        written. In both cases nothing is stored.
        """
        base_offset = self.end_offset
        newest_ms = max(record.timestamp_ms for record in records)
        if producer is None:
            data = encode_batch(records, base_offset=base_offset)
        else:
            self.producers.check_epoch(*producer)
            data = encode_batch(
                records,
                base_offset=base_offset,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                transactional=True,
            )
        self._write(AssignedRecords(data, base_offset + len(records) - 1, newest_ms), None)
        if producer is not None:
            self.producers.add_batch(*producer, -1, len(records), base_offset, newest_ms, transactional=True)
        self._advance()

    def append_marker(self, marker: TransactionMarker, *, now_ms: int, transaction_version: int) -> None:
        """Append *marker*, which ends the open transaction of a producer. It is in the file when this method
        returns.

        *transaction_version* is the version of transactions (KIP-890) that the producer uses. Raises ApiError
        if the marker is too old, and OSError if the file cannot be written. In both cases nothing is stored.
        """
        self.producers.check_marker(marker, transaction_version)
        offset = self.end_offset
        self._write(AssignedRecords(encode_marker(marker, offset, now_ms), offset, now_ms), None)
        end_transaction(self.producers, self._segments[-1], marker, offset, now_ms)
        self._advance()

    def _append_batch(self, batch: RecordBatch, append_time_ms: int | None) -> AppendResult:
        if batch.producer_id < 0:
            return self._write(overwrite_offsets(batch, self.end_offset, append_time_ms), append_time_ms)
        identity = (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.count)
        transactional = batch.is_transactional
        stored = self.producers.check(*identity, transactional=transactional)
        if stored is not None:
            return AppendResult(
                stored.base_offset, stored.timestamp_ms if self.config.log_append_time else -1
            )
        assigned = overwrite_offsets(batch, self.end_offset, append_time_ms)
        result = self._write(assigned, append_time_ms)
        self.producers.add_batch(
            *identity, result.base_offset, assigned.max_timestamp, transactional=transactional
        )
        return result

    def _write(self, assigned: AssignedRecords, append_time_ms: int | None) -> AppendResult:
        size = memoryview(assigned.data).nbytes
        base_offset = self.end_offset
        active = self._segments[-1]
        too_far = assigned.last_offset - active.base_offset > _MAX_RELATIVE_OFFSET
        if active.size and (active.size + size > self.config.segment_bytes or active.index.full or too_far):
            active = self._roll()
        active.append(*assigned)
        return AppendResult(base_offset, -1 if append_time_ms is None else append_time_ms)

    def _advance(self) -> None:
        self.watermarks.advance(self.end_offset, self._first_open_offset())

    def _first_open_offset(self) -> int | None:
        """Return the first offset of the oldest open transaction, or the log start offset if that is larger;
        None if no transaction is open."""
        found = self.producers.first_open_offset
        return None if found is None else max(found, self.start_offset)

    def _roll(self) -> Segment:
        segment = new_segment(self.directory, self.end_offset, self.config)
        segment.descriptor()
        self._segments.append(segment)
        return segment

    # Reading

    def locate(self, offset: int) -> LocatedBatch | None:
        """Return the batch that contains *offset*; None if *offset* is the end of the log. Raises ApiError
        (OFFSET_OUT_OF_RANGE) if *offset* is before the start or after the end of the log."""
        start, end = self.start_offset, self.end_offset
        if not start <= offset <= end:
            raise ApiError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is not in the log, which begins at {start} and ends before {end}",
            )
        if offset == end:
            return None
        at = bisect_right(self._segments, offset, key=lambda segment: segment.base_offset) - 1
        for segment in self._segments[at:]:
            scanned = 0
            for batch in segment.headers_from(offset):
                if batch.last_offset >= offset:
                    return LocatedBatch(segment, batch, scanned)
                scanned += batch.size
        return None

    def slice(
        self, offset: int, max_bytes: int, *, limit: int, whole_first: bool, partial: bool = False
    ) -> FileSlice | None:
        """Return a slice of a segment file: the batch that contains *offset*, and batches after it. Return
        None if there is no batch to return.

        The slice ends at the end of a batch, is not larger than *max_bytes*, and has only offsets below
        *limit*. If the first batch alone is larger than *max_bytes*, the result is this batch if
        *whole_first* is true, the beginning of the batch if *partial* is true, and otherwise None. Raises
        ApiError (OFFSET_OUT_OF_RANGE) if the log does not have *offset*.
        """
        found = self.locate(offset)
        if found is None:
            return None
        segment, first, _ = found
        readable = segment.end_before(limit)
        if first.position >= readable:
            return None
        allowed = first.position + max(0, max_bytes)
        if allowed >= readable:
            end_offset = min(limit, segment.next_offset)
            return FileSlice(segment, first.position, readable - first.position, end_offset)
        if first.end > allowed:
            length = first.size if whole_first else max_bytes if partial else 0
            return FileSlice(segment, first.position, length, first.last_offset + 1) if length > 0 else None
        end, end_offset = max(first.end, segment.index.boundary(allowed)), limit
        for batch in segment.headers(end):
            if batch.end > allowed:
                end_offset = batch.base_offset
                break
            end = batch.end
        return FileSlice(segment, first.position, end - first.position, end_offset)

    def batches(self) -> Iterator[tuple[RecordBatch, list[DecodedRecord]]]:
        """Yield the batches that the log has now, each with its records."""
        return read_segments(self.segments)

    # Deleting

    def compact(self) -> Generator[None, None, int]:
        """Remove all records except the newest record of each key, and remove this record too if it has no
        value. Return the number of records that are left in the log.

        Segments with records of open transactions, and records that are appended after the first step, stay
        as they are. This is a generator, so that the event loop can do other work between two steps. After a
        crash the log has either the old or the new records.
        """
        if self._segments[-1].size:
            self._roll()
        stable = self.watermarks.last_stable_offset
        old = [segment for segment in self._segments[:-1] if segment.next_offset <= stable]
        others = sum(len(records) for _, records in read_segments(self._segments[len(old) :]))
        if not old or self.end_offset - old[0].base_offset > _MAX_RELATIVE_OFFSET:
            return others + sum(len(records) for _, records in read_segments(old))
        draft = old[0].path.with_suffix(".log.cleaned")
        aborted = aborted_transactions(self._segments, old[0].base_offset, stable)
        kept = yield from write_compacted(old, aborted, self.producers, draft)
        compacted = new_segment(self.directory, old[0].base_offset, self.config)
        compacted.path = draft
        try:
            for _ in compacted.recover():
                yield
            compacted.transactions.unlink()
            draft.replace(old[0].path)
        except BaseException:
            compacted.close()
            raise
        compacted.path = old[0].path
        for segment in old[1:]:
            segment.unlink()
        self._close_replaced()
        self._replaced = old
        self._segments[: len(old)] = [compacted]
        return kept + others

    def enforce_retention(self, now_ms: int) -> int:
        """Delete the old segments, as ``retention.ms`` and ``retention.bytes`` require. Return the number of
        deleted segments."""
        count = expired_segments(self._segments, self.config, now_ms)
        if count == len(self._segments):
            self._roll()
        for _ in range(count):
            self._segments.pop(0).delete()
        if count:
            self._advance()
        return count

    def close(self) -> None:
        self._close_replaced()
        for segment in self._segments:
            segment.close()

    def _close_replaced(self) -> None:
        for segment in self._replaced:
            segment.close()
        self._replaced = []

    def delete(self) -> None:
        """Remove the directory of a deleted partition, and wake the fetches that wait for records.

        If the directory cannot be removed, a warning is logged. Even so, a new log of the same name begins
        empty.
        """
        self.close()
        try:
            shutil.rmtree(self.directory)
        except OSError as error:
            _logger.warning(
                "the directory %s of a deleted topic could not be removed: %s; remove it yourself",
                self.directory,
                error,
            )
        self.watermarks.wake()
