"""Decodes a batch of any record format into a list of records, and encodes a list of records as one batch.

This module is for code that handles one batch at a time, such as splitting a batch, converting it or writing
it to a log. Records that users send and receive go through ``Appender`` and ``decode``.
"""

from collections.abc import Sequence
from typing import Any

from pyklient.errors import UnsupportedVersionError
from pyklient.kernel.kernel_choice import encode_records, encode_values, parse_records
from pyklient.protocol.records.batch_header import RecordBatch, batch_header
from pyklient.protocol.records.compression import (
    DEFAULT_MAX_DECOMPRESSED,
    Compression,
    check_pair,
    compress,
    decompress,
)
from pyklient.protocol.records.layout import (
    BATCH_SIZE,
    CREATE_TIME,
    LOG_APPEND_TIME,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    Buffer,
    Columns,
    DecodedRecord,
    Headers,
)
from pyklient.protocol.records.message_set import encode_set, parse_entry

__all__ = ["encode_batch", "encode_values_batch", "read_records"]


def read_records(batch: RecordBatch, max_decompressed: int = DEFAULT_MAX_DECOMPRESSED) -> list[DecodedRecord]:
    """Return all records of *batch*, including control records. The checksum is not verified.

    Raises CorruptRecordError if the batch cannot be parsed, UnsupportedCodecError for an unknown codec, and
    MessageTooLargeError if the batch is larger than *max_decompressed* bytes when decompressed.
    """
    columns, kind = _parse(batch, max_decompressed)
    offsets, timestamps, keys, values, headers = columns
    return [
        DecodedRecord(offset, timestamp, kind, key, value, headers.get(index, ()))
        for index, (offset, timestamp, key, value) in enumerate(
            zip(offsets, timestamps, keys, values, strict=True)
        )
    ]


def _parse(batch: RecordBatch, max_decompressed: int) -> tuple[Columns, int]:
    """Return the records of *batch* as one list per field, and their timestamp type."""
    if batch.magic < 2:
        return parse_entry(batch.buffer, check_crcs=False, max_decompressed=max_decompressed)
    count, base = batch.count, batch.base_offset
    if not count:
        return Columns([], [], [], [], {}), batch.timestamp_type
    data = decompress(batch.compression, batch.buffer[BATCH_SIZE:], 2, max_decompressed)
    columns = parse_records(data, count, base, batch.last_offset - base, batch.base_timestamp)
    if batch.timestamp_type == LOG_APPEND_TIME:
        columns.timestamps[:] = [batch.max_timestamp] * count
    return columns, batch.timestamp_type


def encode_batch(
    records: Sequence[tuple[int, bytes | None, bytes | None, Headers]],
    *,
    magic: int = 2,
    compression: Compression = Compression.NONE,
    base_offset: int = 0,
    timestamp_type: int = CREATE_TIME,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    partition_leader_epoch: int = -1,
    offset_deltas: Sequence[int] | None = None,
) -> bytes:
    """Encode records, each given as (timestamp_ms, key, value, headers), as one batch. In formats 0 and 1,
    the batch is a message set.

    *offset_deltas* are the distances of the records from *base_offset*, by default 0, 1, 2 …. The other
    arguments are fields of the batch's header. Raises UnsupportedCodecError for zstd before format 2, and
    UnsupportedVersionError for headers, a producer id or a transaction before format 2.
    """
    check_pair(magic, compression)
    if magic < 2:
        _reject_newer_features(records, magic, producer_id, transactional or control)
        deltas = range(len(records)) if offset_deltas is None else offset_deltas
        offsets = [base_offset + delta for delta in deltas]
        return encode_set([record[:3] for record in records], offsets, magic, compression, timestamp_type)
    count = len(records)
    base_timestamp = records[0][0] if count else NO_TIMESTAMP
    payload = encode_records(records, base_timestamp, offset_deltas)
    if compression and count:
        payload = compress(compression, payload)
    attributes = compression if count else Compression.NONE
    header = batch_header(
        payload,
        count=count,
        base_timestamp=base_timestamp,
        max_timestamp=max([record[0] for record in records], default=NO_TIMESTAMP),
        compression=attributes,
        base_offset=base_offset,
        last_offset_delta=offset_deltas[-1] if offset_deltas else max(0, count - 1),
        timestamp_type=timestamp_type,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
        control=control,
        partition_leader_epoch=partition_leader_epoch,
    )
    return header + payload


def encode_values_batch(
    values: list[bytes | None],
    keys: list[bytes | None] | None = None,
    *,
    timestamp_ms: int,
    magic: int = 2,
    compression: Compression = Compression.NONE,
) -> list[Buffer]:
    """Encode records that all have the same timestamp and no headers as one batch. In formats 0 and 1, the
    batch is a message set. Return the parts of the batch in order.

    *values* must not be empty. *keys* are in the order of *values*; None if no record has a key. Raises
    UnsupportedCodecError for zstd before format 2.
    """
    check_pair(magic, compression)
    count = len(values)
    if magic < 2:
        all_keys = [None] * count if keys is None else keys
        records = [(timestamp_ms, key, value) for key, value in zip(all_keys, values, strict=True)]
        return [encode_set(records, range(count), magic, compression)]
    payload: Buffer = encode_values(values, keys)
    if compression:
        payload = compress(compression, payload)
    header = batch_header(
        payload,
        count=count,
        base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms,
        compression=compression,
    )
    return [header, payload]


def _reject_newer_features(
    records: Sequence[Any], magic: int, producer_id: int, in_transaction: bool
) -> None:
    if any(record[3] for record in records):
        raise UnsupportedVersionError(
            f"the broker's record format {magic} cannot store headers; send without headers, or upgrade the "
            "broker to Kafka 0.11 or later"
        )
    if producer_id != NO_PRODUCER_ID or in_transaction:
        raise UnsupportedVersionError(
            f"the broker's record format {magic} cannot store producer ids or transactions; send without "
            "idempotence and transactions, or upgrade the broker to Kafka 0.11 or later"
        )
