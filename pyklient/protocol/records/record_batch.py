"""One batch of any record format, by its header; and writing the header of format 2.

The header is all that routing, storing and forwarding need. ``verify`` reads the bytes.
"""

from collections.abc import Iterator

from crc32c import crc32c

from pyklient.errors import CorruptRecordError
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
    """One batch, or one entry of formats 0 and 1: the facts of its header, and access to its records.

    In formats 0 and 1 a header knows only the last offset: ``base_offset`` and ``count`` of a compressed
    entry decompress it. Offsets that a producer wrote mean nothing before a broker has assigned them.
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
        """*buffer* is exactly one batch, as :func:`iter_batches` cuts them."""
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
        """The offset of the first record (of format 2: before compaction)."""
        if self._base_offset is None:
            self._base_offset = parse_entry(self.buffer, check_crcs=False)[0].offsets[0]
        return self._base_offset

    @property
    def count(self) -> int:
        """How many records the batch holds; may be 0 after compaction."""
        if self._count is None:
            self._count = len(parse_entry(self.buffer, check_crcs=False)[0].offsets)
        return self._count

    @property
    def next_offset(self) -> int:
        """The offset after this batch."""
        return self.last_offset + 1

    @property
    def compression(self) -> Compression:
        """Raises UnsupportedCodecError for one that Kafka does not have, or not in this format."""
        return compression_of(self.attributes, self.magic)

    @property
    def timestamp_type(self) -> int:
        """0 CreateTime, 1 LogAppendTime, -1 none (format 0)."""
        if not self.magic:
            return NO_TIMESTAMP_TYPE
        return LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE_BIT else CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """Part of a transaction, or the marker that ends one."""
        return self.magic == 2 and bool(self.attributes & TRANSACTIONAL_BIT)

    @property
    def is_control(self) -> bool:
        """Written by a broker for itself and for readers; its record is no message."""
        return self.magic == 2 and bool(self.attributes & CONTROL_BIT)

    def verify(self) -> None:
        """Raises CorruptRecordError unless the batch's checksum holds."""
        if self.magic < 2:
            verify_entry(self.buffer)
            return
        crc = int.from_bytes(self.buffer[17:21], "big")
        if crc32c(self.buffer[ATTRIBUTES_AT:]) != crc:
            raise CorruptRecordError(
                f"the checksum of the batch at offset {self._base_offset} does not match its bytes"
            )


def iter_batches(buffer: Buffer) -> Iterator[RecordBatch]:
    """The batches in *buffer*, by their headers, in order; nothing is copied.

    An incomplete batch at the end is normal (brokers cut responses anywhere) and ends the iteration.
    Raises CorruptRecordError where the bytes are no batch.
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
    """The 61 bytes that go in front of *payload*, a records section compressed already, to make it a batch.

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
