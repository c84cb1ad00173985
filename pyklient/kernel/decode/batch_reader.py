"""Reads the batches of a fetched buffer one after the other, for decoding into messages or into columns.

Nothing here runs once per record. The loops over records are in the kernel; :class:`RecordLoops` names them.
With the compiled kernel, nothing here runs once per batch either, except for batches that this kernel cannot
read by itself, such as batches of old formats.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import islice
from operator import lt
from typing import Any, Final, NamedTuple

from pyklient.errors import CorruptRecordError
from pyklient.kernel.decode.message import Message
from pyklient.protocol.records.aborted_transactions import AbortedTransactions
from pyklient.protocol.records.compression import Decompressor, compression_of
from pyklient.protocol.records.layout import (
    ABORT,
    ATTRIBUTES_AT,
    BATCH,
    BATCH_SIZE,
    CONTROL_BIT,
    INT64_MAX,
    MAGIC_AT,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    Buffer,
    Columns,
    batch_end,
)
from pyklient.protocol.records.message_set import parse_entry

__all__ = ["ENOUGH_BYTES", "BatchReader", "RecordLoops", "control_type", "size_of"]

ENOUGH_BYTES: Final = 4 << 20
"""The number of decompressed bytes after which a chunk ends. It keeps the chunk small compared with the
fetched buffer."""


class RecordLoops(NamedTuple):
    """The functions of a kernel that run over all records of a batch."""

    parse_records: Callable[[Buffer, int, int, int, int], Columns]
    make_messages: Callable[[str, int, int, Columns], list[Message]]
    crc32c: Callable[[Buffer], int]
    iterator: Callable[[str, int], Any] | None = None
    """A class of iterators, whose arguments are a topic and a partition. An iterator has the messages of many
    batches, and makes each message at the moment when the message is read. None in the Python kernel."""
    parse_batches: (
        Callable[
            [Buffer, int, int, int, int, bool, int, Decompressor],
            tuple[Columns, int, int, int, int],
        ]
        | None
    ) = None
    """A function like ``parse_records`` for many batches. None in the Python kernel."""
    parse_messages: (
        Callable[[Buffer, int, int, int, int, int | None, str, int, int], list[Message]] | None
    ) = None
    """A function that makes all messages of a batch at once. None in the compiled kernel."""


class BatchReader(ABC):
    """Reads the batches of a buffer one after the other. Its subclasses collect the records in messages or in
    columns."""

    def __init__(
        self,
        loops: RecordLoops,
        start_offset: int,
        check_crcs: bool,
        aborted: AbortedTransactions | None,
        max_decompressed: int,
    ) -> None:
        self.loops = loops
        self.next_offset = start_offset
        self.nbytes = 0
        """The decompressed size in bytes of the records that were collected so far."""
        self._check_crcs = check_crcs
        self._aborted = aborted
        self._max_decompressed = max_decompressed
        self._decompress = Decompressor(max_decompressed)

    @property
    def none_aborted_below(self) -> int:
        """The end of a range without aborted batches: no batch from ``next_offset`` up to this offset belongs
        to an aborted transaction."""
        return INT64_MAX if self._aborted is None else self._aborted.first_from(self.next_offset)

    @property
    @abstractmethod
    def count(self) -> int:
        """The number of records that have been collected so far."""

    @abstractmethod
    def add_batches(self, view: memoryview, position: int) -> int:
        """Collect the records of batches from byte *position* on, as many as the kernel can read in one call.
        Advance ``next_offset`` and ``nbytes``. Return the position after these batches.

        The kernel reads plain batches. A plain batch has format 2, is not damaged, and has no record that
        must be left out because of a transaction.
        """

    @abstractmethod
    def has_space_for(self, batch: memoryview) -> bool:
        """Return True if the records of *batch* may be added to the collected records. If not, ``read`` ends
        before *batch*."""

    @abstractmethod
    def add_batch(
        self,
        data: Buffer,
        count: int,
        base_offset: int,
        last_delta: int,
        base_timestamp: int,
        append_time: int | None,
    ) -> None:
        """Collect the records of a batch of format 2, from offset ``next_offset`` on.

        *data* has all records of the batch, encoded. *append_time* is the timestamp of all of them if the
        broker has set one, otherwise None. The other arguments are fields of the batch's header.
        """

    @abstractmethod
    def add_entry(self, columns: Columns, kind: int) -> None:
        """Collect the records of an entry of format 0 or 1 (one record, or a compressed set of records), from
        offset ``next_offset`` on.

        *columns* has all records of the entry. *kind* is their timestamp type.
        """

    def read(self, buffer: Buffer, position: int) -> int:
        """Collect the records of whole batches from byte *position* on. Return the total size of these
        batches in bytes.

        If the first batch is malformed, raises an error. If a later batch is malformed, reads only the
        batches before it; the next call begins with the malformed batch.
        """
        view = memoryview(buffer)
        start = position
        try:
            while True:
                position = self.add_batches(view, position)
                end = batch_end(view, position)
                if not end or not self.has_space_for(batch := view[position:end]):
                    break
                self._read(batch)
                position = end
        except Exception:
            if position == start and not self.count:
                raise
        return position - start

    def _read(self, batch: memoryview) -> None:
        """Collect the records of *batch*, a whole batch of format 2 or a whole entry of format 0 or 1."""
        if batch[MAGIC_AT] == 2:
            self._read_batch(batch)
            return
        if int.from_bytes(batch[:8], "big", signed=True) < self.next_offset:
            return  # all its records were read before, so it does not matter if it is damaged
        columns, kind = parse_entry(
            batch, check_crcs=self._check_crcs, max_decompressed=self._max_decompressed
        )
        offsets = columns.offsets
        if offsets[0] < 0 or offsets[-1] >= INT64_MAX or not all(map(lt, offsets, islice(offsets, 1, None))):
            raise CorruptRecordError(
                f"the offsets in the compressed message set at offset {offsets[-1]} do not increase"
            )
        if offsets[-1] >= self.next_offset:
            self.add_entry(columns, kind)
            self.next_offset = offsets[-1] + 1
        self.nbytes += size_of(columns)

    def _read_batch(self, batch: memoryview) -> None:
        (
            base,
            _,
            _,
            _,
            crc,
            attributes,
            last_delta,
            base_timestamp,
            max_timestamp,
            producer_id,
            _,
            _,
            count,
        ) = BATCH.unpack_from(batch)
        last = base + last_delta
        if base < 0 or last_delta < 0 or last >= INT64_MAX or count < 0:
            raise CorruptRecordError(f"a batch of {count} records cannot have the offsets {base} to {last}")
        if last < self.next_offset:
            return
        if self._check_crcs and self.loops.crc32c(batch[ATTRIBUTES_AT:]) != crc:
            raise CorruptRecordError(f"the checksum of the batch at offset {base} does not match its bytes")
        if attributes & CONTROL_BIT:
            self._pass_control(batch, producer_id, last)
        elif count and not (attributes & TRANSACTIONAL_BIT and self._is_aborted(producer_id, last)):
            data: Buffer = batch[BATCH_SIZE:]
            codec = compression_of(attributes, 2)
            if codec:
                data = self._decompress(codec, data)
            append_time = max_timestamp if attributes & TIMESTAMP_TYPE_BIT else None
            self.add_batch(data, count, base, last_delta, base_timestamp, append_time)
            self.nbytes += len(data)
        self.next_offset = last + 1

    def _pass_control(self, batch: memoryview, producer_id: int, offset: int) -> None:
        if self._aborted is not None and control_type(self.loops, batch) == ABORT:
            self._aborted.end(producer_id, offset)

    def _is_aborted(self, producer_id: int, last_offset: int) -> bool:
        return self._aborted is not None and self._aborted.covers(producer_id, last_offset)


def size_of(columns: Columns) -> int:
    """Return the total size of the keys and values of all records in *columns*, in bytes."""
    return sum(map(len, filter(None, columns.keys))) + sum(map(len, filter(None, columns.values)))


def control_type(loops: RecordLoops, batch: Buffer) -> int | None:
    """Return the type of a control batch: 0 for abort, 1 for commit. Only brokers use other types.

    Return None if the batch has no records: the log cleaner replaces old control batches with such empty
    batches. If the type cannot be read, raises CorruptRecordError, which names the offset of the batch.
    """
    base, _, _, _, _, _, last_delta, base_timestamp, _, _, _, _, count = BATCH.unpack_from(batch)
    if not count:
        return None
    try:
        columns = loops.parse_records(batch[BATCH_SIZE:], count, base, last_delta, base_timestamp)
    except CorruptRecordError as error:
        raise CorruptRecordError(f"the control batch at offset {base} cannot be read: {error}") from None
    key = columns.keys[0]
    if key is None or len(key) < 4:
        raise CorruptRecordError(f"the control batch at offset {base} has no type")
    return int.from_bytes(key[2:4], "big", signed=True)
