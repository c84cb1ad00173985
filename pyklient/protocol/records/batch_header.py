"""The header of a batch of any record format, and a function that writes the header of format 2.

To route, store or forward a batch, only its header is needed.
"""

from collections.abc import Iterator

from pyklient.errors import CorruptRecordError
from pyklient.protocol.records.checksum import crc32c
from pyklient.protocol.records.compression import (
    Compression,
    compression_of,
)
from pyklient.protocol.records.layout import (
    ATTRIBUTES_AT,
    BATCH,
    BATCH_AFTER_CRC,
    BATCH_LEAD,
    BATCH_SIZE,
    CODEC_BITS,
    CONTROL_BIT,
    CREATE_TIME,
    LOG_APPEND_TIME,
    MAGIC_AT,
    NO_PRODUCER_ID,
    NO_TIMESTAMP_TYPE,
    OVERHEAD,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    Buffer,
    batch_end,
)
from pyklient.protocol.records.message_set import entry_facts, parse_entry, verify_entry

__all__ = ["RecordBatch", "batch_end", "batch_header", "iter_batches"]


class RecordBatch:
    """A batch (in formats 0 and 1, an entry) that is described by the values of its header.

    The header of formats 0 and 1 has only the last offset. Therefore a compressed entry is decompressed when
    ``base_offset`` or ``count`` is read. Offsets have no meaning before a broker has assigned them.
    """

    __slots__ = (
        "_base_offset",
        "_count",
        "attributes",
        "base_sequence",
        "base_timestamp",
        "buffer",
        "last_offset",
        "magic",
        "max_timestamp",
        "partition_leader_epoch",
        "producer_epoch",
        "producer_id",
        "size",
    )

    def __init__(self, buffer: memoryview) -> None:
        """Describe the batch in *buffer*, which must be exactly one batch, as :func:`iter_batches` yields
        it."""
        self.buffer = buffer
        self.size = len(buffer)
        self.magic = buffer[MAGIC_AT]
        self._base_offset: int | None
        self._count: int | None
        if self.magic < 2:
            self.last_offset, self.attributes, self.max_timestamp = entry_facts(buffer)
            self.base_timestamp = self.max_timestamp
            self.partition_leader_epoch = self.producer_epoch = self.base_sequence = -1
            self.producer_id = NO_PRODUCER_ID
            compressed = self.attributes & CODEC_BITS
            self._base_offset = None if compressed else self.last_offset
            self._count = None if compressed else 1
            return
        (
            self._base_offset,
            _,
            self.partition_leader_epoch,
            _,
            _,
            self.attributes,
            last_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self._count,
        ) = BATCH.unpack_from(buffer)
        self.last_offset = self._base_offset + last_delta

    def __repr__(self) -> str:
        return (
            f"<RecordBatch format {self.magic}, last offset {self.last_offset}, {self.size} bytes, "
            f"attributes {self.attributes:#x}>"
        )

    @property
    def base_offset(self) -> int:
        """The offset of the first record. In format 2, it stays the same if compaction removes this
        record."""
        if self._base_offset is None:
            self._base_offset = parse_entry(self.buffer, check_crcs=False)[0].offsets[0]
        return self._base_offset

    @property
    def count(self) -> int:
        """The number of records in the batch, which may be 0 after compaction."""
        if self._count is None:
            self._count = len(parse_entry(self.buffer, check_crcs=False)[0].offsets)
        return self._count

    @property
    def next_offset(self) -> int:
        """The offset that follows the last offset of this batch."""
        return self.last_offset + 1

    @property
    def compression(self) -> Compression:
        """The compression codec of the batch. Raises UnsupportedCodecError if Kafka has no such codec, or
        does not allow it in this record format."""
        return compression_of(self.attributes, self.magic)

    @property
    def timestamp_type(self) -> int:
        """The timestamp type of the records: 0 CreateTime, 1 LogAppendTime, -1 none (format 0)."""
        if not self.magic:
            return NO_TIMESTAMP_TYPE
        return LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE_BIT else CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """True if the batch is part of a transaction, or is the control batch that ends one."""
        return self.magic == 2 and bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """True if the batch is a control batch, which a broker wrote. The record in it is not a message."""
        return self.magic == 2 and bool(self.attributes & CONTROL_BIT)

    def verify(self) -> None:
        """Raise CorruptRecordError if the checksum of the batch does not match its bytes."""
        if self.magic < 2:
            verify_entry(self.buffer)
            return
        crc = int.from_bytes(self.buffer[17:21], "big")
        if crc32c(self.buffer[ATTRIBUTES_AT:]) != crc:
            raise CorruptRecordError(
                f"the checksum of the batch at offset {self._base_offset} does not match its bytes"
            )


def iter_batches(buffer: Buffer) -> Iterator[RecordBatch]:
    """Yield the batches in *buffer* in order, without copying them.

    An incomplete batch at the end is normal, because brokers may cut responses anywhere; it ends the
    iteration. Raises CorruptRecordError if the bytes are not a batch.
    """
    view = memoryview(buffer)
    position = 0
    while end := batch_end(view, position):
        yield RecordBatch(view[position:end])
        position = end


def batch_header(
    payload: Buffer,
    *,
    count: int,
    base_timestamp: int,
    max_timestamp: int,
    compression: Compression = Compression.NONE,
    base_offset: int = 0,
    last_offset_delta: int | None = None,
    timestamp_type: int = CREATE_TIME,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    partition_leader_epoch: int = -1,
) -> bytes:
    """Return the header of a batch of format 2. These 61 bytes and *payload* after them make the batch.

    *payload* has the records, already compressed. The other arguments are fields of the header.
    *last_offset_delta* is ``count - 1`` unless given.
    """
    attributes = (
        compression
        | (TIMESTAMP_TYPE_BIT if timestamp_type == LOG_APPEND_TIME else 0)
        | (TRANSACTIONAL_BIT if transactional else 0)
        | (CONTROL_BIT if control else 0)
    )
    after_crc = BATCH_AFTER_CRC.pack(
        attributes,
        count - 1 if last_offset_delta is None else last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    crc = crc32c(payload, crc32c(after_crc))
    length = BATCH_SIZE - OVERHEAD + len(payload)
    return BATCH_LEAD.pack(base_offset, length, partition_leader_epoch, 2, crc) + after_crc
