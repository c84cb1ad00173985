"""Shallow iteration, for mirrors: compressed batches are handed out as they are, and nothing decompresses
them.

Kafka 0.7 calls this ``shallowiterator.enable``. A batch is one message: its value is the compressed records,
its offset is the offset of the last record, and its header ``compression.codec`` names the codec. A record
that is not compressed is a message as usual.
"""

from collections.abc import Callable
from typing import Final

from pyklient.consumer.fetch.fetch_position import FetchedBatches
from pyklient.errors import CorruptRecordError
from pyklient.kernel import Chunk, Message
from pyklient.protocol.records.batch_header import batch_end
from pyklient.protocol.records.checksum import crc32c
from pyklient.protocol.records.compression import compression_of
from pyklient.protocol.records.layout import (
    ATTRIBUTES_AT,
    BATCH,
    BATCH_SIZE,
    CODEC_BITS,
    CONTROL_BIT,
    CREATE_TIME,
    LEAD_SIZE,
    LOG_APPEND_TIME,
    MAGIC_AT,
    TIMESTAMP_TYPE_BIT,
)
from pyklient.protocol.records.message_set import parse_entry, verify_entry

__all__ = ["shallow_chunk"]

_HEADER: Final = "compression.codec"


def shallow_chunk(
    fetched: FetchedBatches, check_crcs: bool, decode: Callable[[FetchedBatches], Chunk]
) -> Chunk:
    """Return the next chunk of *fetched*. If the next batch is compressed, the chunk consists of this batch,
    whose checksum is verified if *check_crcs* is true. Otherwise, *decode* makes the chunk from the batches
    before the next compressed batch."""
    buffer, at = fetched.buffer, fetched.at
    end = batch_end(buffer, at)
    if end and _codec(buffer[at:end]):
        return _wrapper(fetched, buffer[at:end], check_crcs)
    while end and (after := batch_end(buffer, end)) and not _codec(buffer[end:after]):
        end = after
    plain = fetched.copy()
    plain.buffer = buffer[: end or len(buffer)]
    return decode(plain)


def _codec(batch: memoryview) -> int:
    """Return the number of the codec with which *batch* is compressed. Return 0 if it is not compressed, or
    is a control batch."""
    if batch[MAGIC_AT] == 2:
        attributes = int.from_bytes(batch[ATTRIBUTES_AT : ATTRIBUTES_AT + 2])
        return 0 if attributes & CONTROL_BIT else attributes & CODEC_BITS
    return batch[LEAD_SIZE] & CODEC_BITS


def _wrapper(fetched: FetchedBatches, batch: memoryview, check_crcs: bool) -> Chunk:
    """Return a chunk that consists of *batch*, a compressed batch of *fetched*. The chunk is empty if all
    records of the batch come before the position. If *check_crcs* is true, verify the checksum of the
    batch."""
    topic, partition = fetched.cursor.partition
    offset, timestamp, kind, key, value = (
        _of_format_2(batch, check_crcs) if batch[MAGIC_AT] == 2 else _of_old_format(batch, check_crcs)
    )
    codec = compression_of(_codec(batch), batch[MAGIC_AT]).name.lower().encode()
    headers = ((_HEADER, codec),)
    message = Message(topic, partition, offset, timestamp, kind, key, value, headers)
    found = [message] if offset >= fetched.start else []
    return Chunk(topic, partition, found, max(offset + 1, fetched.start), len(batch))


def _of_format_2(batch: memoryview, check_crcs: bool) -> tuple[int, int, int, bytes | None, bytes | None]:
    base, _, _, _, crc, attributes, last_delta, _, latest, *_ = BATCH.unpack_from(batch)
    if check_crcs and crc32c(batch[ATTRIBUTES_AT:]) != crc:
        raise CorruptRecordError(f"the checksum of the batch at offset {base} does not match its bytes")
    kind = LOG_APPEND_TIME if attributes & TIMESTAMP_TYPE_BIT else CREATE_TIME
    return base + last_delta, latest, kind, None, bytes(batch[BATCH_SIZE:])


def _of_old_format(entry: memoryview, check_crcs: bool) -> tuple[int, int, int, bytes | None, bytes | None]:
    if check_crcs:
        verify_entry(entry)
    plain = bytearray(entry)
    plain[LEAD_SIZE] &= ~CODEC_BITS  # so that the value is left as it is
    columns, kind = parse_entry(plain, check_crcs=False)
    return columns.offsets[0], columns.timestamps[0], kind, columns.keys[0], columns.values[0]
