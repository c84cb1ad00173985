"""Converts batches between record formats, as a broker does for older clients."""

from collections.abc import Sequence

from pyklient.kernel.batch_records import encode_batch, read_records
from pyklient.protocol.records.batch_header import RecordBatch, iter_batches
from pyklient.protocol.records.compression import DEFAULT_MAX_DECOMPRESSED, Compression
from pyklient.protocol.records.layout import Buffer, NewRecord
from pyklient.protocol.records.message_set import encode_set

__all__ = ["convert"]


def convert(
    buffer: Buffer,
    magic: int,
    *,
    from_offset: int = 0,
    max_decompressed: int = DEFAULT_MAX_DECOMPRESSED,
) -> bytes:
    """Return the records in *buffer* as batches of record format *magic*.

    Conversion to format 0 or 1 is for old consumers. Offsets do not change. Headers and control batches are
    left out, and so are uncompressed records below *from_offset*. Batches that already have format *magic* or
    an older one are not changed. Raises UnsupportedCodecError for zstd, which formats 0 and 1 do not have.

    Conversion to format 2 is for old producers. The result is one batch, with offsets from 0 on.
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
    records = read_records(batch, max_decompressed)
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
        found = read_records(batch, max_decompressed)
        max_decompressed -= sum(len(record.key or b"") + len(record.value or b"") for record in found)
        records += [
            NewRecord(record.timestamp_ms, record.key, record.value, record.headers) for record in found
        ]
        codec = batch.compression or codec
    return encode_batch(records, compression=codec)
