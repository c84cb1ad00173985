"""What a broker does to record bytes: number them, and convert them between formats."""

from collections.abc import Sequence

from crc32c import crc32c

from pyklient.protocol.records.batch import RecordBatch, encode_batch, iter_batches
from pyklient.protocol.records.compression import DEFAULT_MAX_DECOMPRESSED, Compression
from pyklient.protocol.records.layout import (
    ATTRIBUTES_AT,
    CRC_AT,
    LEADER_EPOCH_AT,
    MAX_TIMESTAMP_AT,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
    Buffer,
    NewRecord,
)
from pyklient.protocol.records.message_set import encode_set

__all__ = ["assign_offsets", "convert"]


def assign_offsets(
    buffer: bytearray | memoryview,
    base_offset: int,
    leader_epoch: int = 0,
    log_append_time_ms: int | None = None,
) -> tuple[int, int]:
    """Number the batches of format 2 in *buffer* from *base_offset* on, in place.

    Offset and leader epoch stand outside the checksum; only *log_append_time_ms*, which replaces the
    producer's timestamps, makes it be computed anew. Returns the offset after the last record, and the
    latest timestamp. Raises ValueError for older formats, which may have offsets inside a compressed set.
    """
    view = memoryview(buffer)
    next_offset = base_offset
    latest = NO_TIMESTAMP
    for batch in iter_batches(view):
        if batch.magic != 2:
            raise ValueError(f"a batch of format {batch.magic} cannot be numbered in place")
        data = batch.buffer
        data[:8] = next_offset.to_bytes(8, "big", signed=True)
        data[LEADER_EPOCH_AT : LEADER_EPOCH_AT + 4] = leader_epoch.to_bytes(4, "big", signed=True)
        if log_append_time_ms is not None:
            data[ATTRIBUTES_AT + 1] |= TIMESTAMP_TYPE_BIT
            data[MAX_TIMESTAMP_AT : MAX_TIMESTAMP_AT + 8] = log_append_time_ms.to_bytes(8, "big", signed=True)
            data[CRC_AT:ATTRIBUTES_AT] = crc32c(data[ATTRIBUTES_AT:]).to_bytes(4, "big")
        latest = max(latest, batch.max_timestamp if log_append_time_ms is None else log_append_time_ms)
        next_offset += batch.last_offset - batch.base_offset + 1
    return next_offset, latest


def convert(
    buffer: Buffer,
    magic: int,
    *,
    from_offset: int = 0,
    max_decompressed: int = DEFAULT_MAX_DECOMPRESSED,
) -> bytes:
    """The records of *buffer* in format *magic*.

    Down, to 0 or 1, as a broker does for old consumers: offsets stay, headers and control batches are
    left out, records below *from_offset* too where they are not compressed; batches that are old enough
    pass as they are. Raises UnsupportedCodecError for zstd, which those formats do not have.

    Up, to 2, as a broker does for old producers: one batch, numbered from 0.
    """
    batches = list(iter_batches(buffer))
    if magic == 2:
        if all(batch.magic == 2 for batch in batches):
            return b"".join(batch.buffer for batch in batches)
        return _lift(batches, max_decompressed)
    return b"".join(
        bytes(batch.buffer) if batch.magic <= magic else _lower(batch, magic, from_offset, max_decompressed)
        for batch in batches
        if not batch.is_control
    )


def _lower(batch: RecordBatch, magic: int, from_offset: int, max_decompressed: int) -> bytes:
    records = batch.records(max_decompressed)
    codec = batch.compression
    if not codec:
        records = [record for record in records if record.offset >= from_offset]
    return encode_set(
        [(record.timestamp_ms, record.key, record.value) for record in records],
        [record.offset for record in records],
        magic,
        codec,
        batch.timestamp_type,
    )


def _lift(batches: Sequence[RecordBatch], max_decompressed: int) -> bytes:
    records = []
    codec = Compression.NONE
    for batch in batches:
        found = batch.records(max_decompressed)
        max_decompressed -= sum(len(record.key or b"") + len(record.value or b"") for record in found)
        records += [
            NewRecord(record.timestamp_ms, record.key, record.value, record.headers) for record in found
        ]
        codec = batch.compression or codec
    return encode_batch(records, compression=codec)
