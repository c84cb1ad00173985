"""Assigns offsets to the batches that a producer has sent. This is the last step before they are appended to
the log."""

from typing import NamedTuple

from pyklient.broker.api_errors import ApiError
from pyklient.error_codes import ErrorCode
from pyklient.errors import MessageTooLargeError, ProtocolError
from pyklient.kernel import encode_batch, read_records
from pyklient.protocol.primitives import Buffer
from pyklient.protocol.records import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    NewRecord,
    RecordBatch,
    assign_offsets,
)

__all__ = ["AssignedRecords", "overwrite_offsets", "reencode"]


class AssignedRecords(NamedTuple):
    """Encoded batches with their final offsets, ready to be stored."""

    data: Buffer
    last_offset: int
    max_timestamp: int


def overwrite_offsets(batch: RecordBatch, base_offset: int, append_time_ms: int | None) -> AssignedRecords:
    """Give the records of a batch of format 2 the offsets from *base_offset* on. Only the header of the batch
    changes, because its records have relative offsets.

    If *append_time_ms* is given, this time, in milliseconds since 1970, replaces the producer's timestamps.
    """
    data = batch.buffer if not batch.buffer.readonly else bytearray(batch.buffer)
    next_offset, max_timestamp = assign_offsets(data, base_offset, log_append_time_ms=append_time_ms)
    return AssignedRecords(data, next_offset - 1, max_timestamp)


def reencode(batches: list[RecordBatch], base_offset: int, append_time_ms: int | None) -> AssignedRecords:
    """Encode batches of formats 0 and 1 again, with offsets from *base_offset* on, in the same format and
    compression.

    This is necessary because a compressed batch contains the offset of each of its records. Raises ApiError
    if a batch cannot be parsed, or is too large after decompression.
    """
    parts: list[bytes] = []
    offset, newest = base_offset, NO_TIMESTAMP
    try:
        for batch in batches:
            append_time = append_time_ms if batch.magic == 1 else None
            records = [
                NewRecord(
                    record.timestamp_ms if append_time is None else append_time, record.key, record.value
                )
                for record in read_records(batch)
            ]
            parts.append(
                encode_batch(
                    records,
                    magic=batch.magic,
                    compression=batch.compression,
                    base_offset=offset,
                    timestamp_type=CREATE_TIME if append_time is None else LOG_APPEND_TIME,
                )
            )
            offset += len(records)
            newest = max(newest, max(record.timestamp_ms for record in records))
    except MessageTooLargeError as error:
        raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from None
    except ProtocolError as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    return AssignedRecords(b"".join(parts), offset - 1, newest)
