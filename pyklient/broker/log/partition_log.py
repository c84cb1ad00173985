"""A partition's log: segment files in a directory, appended at one end, read anywhere.

It keeps what it is given: a batch is stored in the format and with the compression it came in, and only
its offsets are written into it. Everything here runs on the broker's loop.
"""

import logging
import os
import shutil
from bisect import bisect_right
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from pyklient.broker.api_errors import Refusal
from pyklient.broker.cluster.topic_configs import TopicConfig
from pyklient.broker.log.batch_headers import BatchFacts
from pyklient.broker.log.clean_shutdown import LogState
from pyklient.broker.log.producer_state import ProducerStates
from pyklient.broker.log.record_validation import Numbered, inspect, number, renumber
from pyklient.broker.log.segment import FileSlice, Segment
from pyklient.error_codes import ErrorCode
from pyklient.kernel import read_records
from pyklient.protocol.primitives import Buffer
from pyklient.protocol.records import RecordBatch, iter_batches

__all__ = ["Appended", "Location", "PartitionLog", "Stamped"]

_logger = logging.getLogger("pyklient.broker")

_MOST_RELATIVE = 2**31 - 1
"""Offsets within a segment are kept in four bytes, relative to its first."""


class Appended(NamedTuple):
    """Where produced records went. ``log_append_time_ms`` is -1 where the producer's own times hold."""

    base_offset: int
    log_append_time_ms: int


class Location(NamedTuple):
    """The batch that holds an offset (or the first one after it), and how many bytes of batches were passed
    over on the way from the place that the index named."""

    segment: Segment
    batch: BatchFacts
    scanned: int


class Stamped(NamedTuple):
    """A record's offset and timestamp."""

    offset: int
    timestamp_ms: int


class PartitionLog:
    """Opens what *directory* holds. Where that is what a clean stop has *left*, no batches are read;
    otherwise all of them are, checksums included, and what follows the first unsound one is cut off.

    ``on_append`` callbacks run once, at the next append or when the log goes away.
    """

    def __init__(
        self,
        directory: Path,
        config: TopicConfig,
        *,
        max_producer_ids: int,
        left: LogState | None = None,
    ) -> None:
        self.directory = directory
        self.config = config
        self.producers = ProducerStates(max_producer_ids)
        self.deleted = False
        self._listeners: set[Callable[[], object]] = set()
        directory.mkdir(parents=True, exist_ok=True)
        self._segments = (left and self._adopt(left)) or self._recover()

    # State

    @property
    def start_offset(self) -> int:
        return self._segments[0].base_offset

    @property
    def end_offset(self) -> int:
        """Offset of the next record; with one replica also the high watermark and last stable offset."""
        return self._segments[-1].next_offset

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._segments)

    @property
    def segments(self) -> tuple[Segment, ...]:
        return tuple(self._segments)

    def state(self) -> LogState:
        """What a later PartitionLog needs in order to open this one without reading its batches."""
        return LogState([segment.state() for segment in self._segments], self.producers.snapshot())

    def on_append(self, listener: Callable[[], object]) -> None:
        self._listeners.add(listener)

    def off_append(self, listener: Callable[[], object]) -> None:
        self._listeners.discard(listener)

    # Writing

    def append(self, records: Buffer | None, *, version: int, now_ms: int) -> Appended:
        """Store the records of a Produce request of *version*; they are in the file when this returns.

        A retried batch of an idempotent producer is not stored again, its first answer is repeated.
        Raises Refusal (see ``intake.inspect`` and ``ProducerStates.check``) or OSError, storing nothing.
        """
        intake = inspect(
            records,
            version,
            max_message_bytes=self.config.max_message_bytes,
            segment_bytes=self.config.segment_bytes,
        )
        if not intake.batches:
            return Appended(-1, -1)
        stamp = now_ms if self.config.log_append_time else None
        if intake.modern:
            return self._append_modern(intake.batches[0], stamp)
        numbered = renumber(intake.batches, self.end_offset, stamp)
        return self._write(numbered, stamp)

    def _append_modern(self, batch: RecordBatch, stamp: int | None) -> Appended:
        if batch.producer_id < 0:
            return self._write(number(batch, self.end_offset, stamp), stamp)
        identity = (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.count)
        stored = self.producers.check(*identity)
        if stored is not None:
            return Appended(stored.base_offset, stored.timestamp_ms if self.config.log_append_time else -1)
        numbered = number(batch, self.end_offset, stamp)
        appended = self._write(numbered, stamp)
        self.producers.stored(*identity, appended.base_offset, numbered.max_timestamp)
        return appended

    def _write(self, numbered: Numbered, stamp: int | None) -> Appended:
        size = memoryview(numbered.data).nbytes
        base_offset = self.end_offset
        active = self._segments[-1]
        too_far = numbered.last_offset - active.base_offset > _MOST_RELATIVE
        if active.size and (active.size + size > self.config.segment_bytes or active.index.full or too_far):
            active = self._roll()
        active.append(*numbered)
        self._notify()
        return Appended(base_offset, -1 if stamp is None else stamp)

    def _roll(self) -> Segment:
        segment = self._segment(self.end_offset)
        segment.descriptor()
        self._segments.append(segment)
        return segment

    # Reading

    def locate(self, offset: int) -> Location | None:
        """Where the batch with *offset* stands; None at the end of the log. Raises OFFSET_OUT_OF_RANGE."""
        if not self.start_offset <= offset <= self.end_offset:
            raise Refusal(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is not within {self.start_offset} and {self.end_offset}",
            )
        at = bisect_right(self._segments, offset, key=lambda segment: segment.base_offset) - 1
        for segment in self._segments[at:]:
            scanned = 0
            for batch in segment.walk_from(offset):
                if batch.last_offset >= offset:
                    return Location(segment, batch, scanned)
                scanned += batch.size
        return None

    def slice(
        self, offset: int, max_bytes: int, *, whole_first: bool, partial: bool = False
    ) -> FileSlice | None:
        """Batches from the one with *offset* on, as they stand in the file; None when there is nothing.

        Ends at the end of a batch within *max_bytes*. If the first batch is larger, *whole_first* takes it
        nevertheless, *partial* takes its beginning, else there is nothing. Raises OFFSET_OUT_OF_RANGE.
        """
        found = self.locate(offset)
        if found is None:
            return None
        segment, first, _ = found
        limit = first.position + max(0, max_bytes)
        if limit >= segment.size:
            return FileSlice(segment, first.position, segment.size - first.position)
        if first.end > limit:
            length = first.size if whole_first else max_bytes if partial else 0
            return FileSlice(segment, first.position, length) if length > 0 else None
        end = max(first.end, segment.index.boundary(limit))
        for batch in segment.walk(end):
            if batch.end > limit:
                break
            end = batch.end
        return FileSlice(segment, first.position, end - first.position)

    def batches(self, segment: Segment, facts: BatchFacts) -> Iterator[RecordBatch]:
        """The stored batch, ready to be decoded."""
        return iter_batches(segment.read(facts.position, facts.size))

    # Positions by time

    def first_since(self, timestamp_ms: int) -> Stamped | None:
        """The first record that is not older than *timestamp_ms*."""
        for segment in self._segments:
            if segment.max_timestamp < timestamp_ms:
                continue
            for facts in segment.walk(0):
                if facts.max_timestamp >= timestamp_ms:
                    found = self._first_in(segment, facts, timestamp_ms)
                    if found is not None:
                        return found
        return None

    def newest(self) -> Stamped | None:
        """The record with the largest timestamp, the first of them if there are several."""
        segment = max(self._segments, key=lambda segment: segment.max_timestamp)
        return self.first_since(segment.max_timestamp) if segment.size else None

    def _first_in(self, segment: Segment, facts: BatchFacts, timestamp_ms: int) -> Stamped | None:
        for batch in self.batches(segment, facts):
            for record in read_records(batch):
                if record.timestamp_ms >= timestamp_ms:
                    return Stamped(record.offset, record.timestamp_ms)
        return None

    def offsets_before(self, timestamp_ms: int, max_offsets: int, now_ms: int) -> list[int]:
        """Segment beginnings (and the end) that were there at *timestamp_ms*, newest first (ListOffsets v0).

        -1 stands for now, -2 for the earliest. A segment's time is that of its file's last change.
        """
        stamps = [(segment.base_offset, segment.modified_ms()) for segment in self._segments]
        if self._segments[-1].size:
            stamps.append((self.end_offset, now_ms))
        if timestamp_ms == -1:
            newest = len(stamps) - 1
        elif timestamp_ms == -2:
            newest = 0
        else:
            newest = max((at for at, (_, stamp) in enumerate(stamps) if stamp <= timestamp_ms), default=-1)
        count = min(max_offsets, newest + 1)
        return (
            [offset for offset, _ in reversed(stamps[newest + 1 - count : newest + 1])] if count > 0 else []
        )

    # Keeping house

    def enforce_retention(self, now_ms: int) -> int:
        """Delete old segments as ``retention.ms`` and ``retention.bytes`` say; returns how many."""
        deleted = 0
        keep_ms, keep_bytes = self.config.retention_ms, self.config.retention_bytes
        if keep_ms >= 0:
            while self._segments[0].size and now_ms - self._age_stamp(self._segments[0]) > keep_ms:
                self._drop_first()
                deleted += 1
        if keep_bytes >= 0:
            excess = self.size - keep_bytes
            while len(self._segments) > 1 and excess >= self._segments[0].size:
                excess -= self._segments[0].size
                self._drop_first()
                deleted += 1
        return deleted

    def _age_stamp(self, segment: Segment) -> int:
        return segment.max_timestamp if segment.max_timestamp >= 0 else segment.modified_ms()

    def _drop_first(self) -> None:
        if len(self._segments) == 1:
            self._roll()
        self._segments.pop(0).delete()

    def close(self) -> None:
        for segment in self._segments:
            segment.close()

    def delete(self) -> None:
        """Remove the directory; whoever waits for records learns of it."""
        self.deleted = True
        self.close()
        shutil.rmtree(self.directory, ignore_errors=True)
        self._notify()

    def _notify(self) -> None:
        listeners, self._listeners = self._listeners, set()
        for listener in listeners:
            listener()

    def _segment(self, base_offset: int) -> Segment:
        return Segment(
            self.directory,
            base_offset,
            index_interval_bytes=self.config.index_interval_bytes,
            index_max_bytes=self.config.index_max_bytes,
        )

    def _bases(self) -> list[int]:
        """The base offsets of the segment files that are there, ascending."""
        stems = (name.removesuffix(".log") for name in os.listdir(self.directory) if name.endswith(".log"))
        return sorted(int(stem) for stem in stems if stem.isdigit())

    def _adopt(self, left: LogState) -> list[Segment] | None:
        """Take up the files as a clean stop has *left* them; None where they are not like that."""
        segments = [self._segment(each.base_offset) for each in left.segments]
        known = {segment.base_offset for segment in segments}
        if known.issuperset(self._bases()) and all(
            segment.adopt(each) for segment, each in zip(segments, left.segments, strict=True)
        ):
            self.producers.restore(left.producers)
            return segments
        _logger.warning("%s: the files have changed since the broker was stopped", self.directory)
        for segment in segments:
            segment.close()
        return None

    def _recover(self) -> list[Segment]:
        """Take up the files: what follows the first unsound batch goes, later segments included."""
        segments: list[Segment] = []
        intact = True
        for base in self._bases():
            segment = self._segment(base)
            if not intact or (segments and base < segments[-1].next_offset):
                _logger.warning(
                    "%s: %s follows a damaged segment and is deleted", self.directory, segment.path.name
                )
                segment.delete()
                continue
            found = segment.path.stat().st_size
            for facts in segment.recover():
                self._remember(facts)
            if segment.size < found:
                intact = False
                _logger.warning("%s: %d bytes cut off the end", segment.path, found - segment.size)
            segments.append(segment)
        if segments:
            nbytes = sum(segment.size for segment in segments)
            _logger.info("%s: %d bytes of log have been checked", self.directory, nbytes)
        return segments or [self._segment(0)]

    def _remember(self, facts: BatchFacts) -> None:
        if (
            facts.producer_id >= 0
            and facts.base_sequence >= 0
            and facts.record_count > 0
            and not facts.is_control
        ):
            self.producers.stored(
                facts.producer_id,
                facts.producer_epoch,
                facts.base_sequence,
                facts.record_count,
                facts.base_offset,
                facts.max_timestamp,
            )
