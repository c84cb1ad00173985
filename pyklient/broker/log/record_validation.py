"""Validates the records of a Produce request before any of them is written to the log, as Kafka's
LogValidator does.

Checksums and batch headers are checked first. Then each batch is decoded once, so that the log
contains no batch that consumers cannot read. Only one batch is decompressed at a time, up to the size that
consumers accept.
"""

from typing import NamedTuple

from pyklient import kernel
from pyklient.broker.api_errors import ApiError
from pyklient.error_codes import ErrorCode
from pyklient.errors import MessageTooLargeError, ProtocolError, UnsupportedCodecError
from pyklient.kernel.decode.column_decoding import OPTIONAL_COLUMNS
from pyklient.protocol.primitives import Buffer
from pyklient.protocol.records import LOG_APPEND_TIME, Compression, RecordBatch, iter_batches

__all__ = ["ValidRecords", "validate_records"]

_FIRST_VERSION_WITH_V2 = 3
_FIRST_VERSION_WITH_ZSTD = 7


class ValidRecords(NamedTuple):
    """Batches that have been validated.

    ``stored_as_is`` is True if there is exactly one batch of format 2. Such a batch can be stored without
    being encoded again.
    """

    batches: list[RecordBatch]
    stored_as_is: bool


def validate_records(
    records: Buffer | None, version: int, *, max_message_bytes: int, segment_bytes: int
) -> ValidRecords:
    """Check the *records* of one partition in a Produce request of *version*, and return them as batches.

    Raises ApiError for invalid records, with the error code that Kafka sends in this case: CORRUPT_MESSAGE,
    MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, INVALID_RECORD, INVALID_TIMESTAMP or
    UNSUPPORTED_COMPRESSION_TYPE.
    """
    data = memoryview(records) if records is not None else memoryview(b"")
    batches: list[RecordBatch] = []
    size = 0
    try:
        for batch in iter_batches(data):
            size += batch.size
            if batch.size > max_message_bytes:
                raise _too_large(batch.size, max_message_bytes)
            batch.verify()
            batches.append(batch)
        codecs = [batch.compression for batch in batches]
    except ProtocolError as error:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    except UnsupportedCodecError as error:
        raise ApiError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, str(error)) from None
    if Compression.ZSTD in codecs and version < _FIRST_VERSION_WITH_ZSTD:
        raise ApiError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"records that are compressed with zstd need Produce version {_FIRST_VERSION_WITH_ZSTD} or "
            f"later, not {version}",
        )
    if size != len(data):
        raise _incomplete(data, max_message_bytes)
    if len(data) > segment_bytes:
        raise ApiError(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"the records have {len(data)} bytes, but segment.bytes of the topic is {segment_bytes}; "
            "raise segment.bytes, or send less at once",
        )
    _check_batches(batches, version)
    return ValidRecords(batches, len(batches) == 1 and batches[0].magic == 2)


def _too_large(size: int, limit: int) -> ApiError:
    return ApiError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"the batch has {size} bytes, but max.message.bytes of the topic is {limit}; raise "
        "max.message.bytes, or send smaller batches",
    )


def _incomplete(data: memoryview, max_message_bytes: int) -> ApiError:
    claimed = int.from_bytes(data[8:12], "big", signed=True) + 12
    if claimed > max_message_bytes:
        return _too_large(claimed, max_message_bytes)
    return ApiError(ErrorCode.CORRUPT_MESSAGE, "the records end in the middle of a batch")


def _check_batches(batches: list[RecordBatch], version: int) -> None:
    if version >= _FIRST_VERSION_WITH_V2 and (len(batches) != 1 or batches[0].magic != 2):
        raise ApiError(
            ErrorCode.INVALID_RECORD,
            f"Produce version {version} allows exactly one batch of format 2 for each partition",
        )
    if len(batches) > 1 and len({batch.magic for batch in batches}) > 1:
        raise ApiError(
            ErrorCode.INVALID_RECORD, "the request has batches of different record formats for one partition"
        )
    for batch in batches:
        if batch.timestamp_type == LOG_APPEND_TIME:
            raise ApiError(
                ErrorCode.INVALID_TIMESTAMP,
                "a producer sent the timestamp type LogAppendTime, which only the broker may set",
            )
        if batch.magic == 2:
            _check_header(batch)
            _check_records(batch)


def _check_header(batch: RecordBatch) -> None:
    if batch.is_control:
        raise ApiError(
            ErrorCode.INVALID_RECORD, "a producer sent control records, which only the broker may write"
        )
    if batch.is_transactional and batch.producer_id < 0:
        raise ApiError(ErrorCode.INVALID_RECORD, "a batch of a transaction has no producer id")
    if batch.count < 1 or batch.last_offset - batch.base_offset + 1 != batch.count:
        raise ApiError(
            ErrorCode.INVALID_RECORD,
            f"a batch of {batch.count} records cannot have the offsets {batch.base_offset} to "
            f"{batch.last_offset}",
        )
    if batch.producer_id >= 0 and (batch.base_sequence < 0 or batch.producer_epoch < 0):
        raise ApiError(
            ErrorCode.INVALID_RECORD,
            "the batch has a producer id, but no producer epoch or no sequence number",
        )


def _check_records(batch: RecordBatch) -> None:
    """Raise ApiError if the records of *batch* cannot be decoded.

    The batch must have as many records as its header says, and its decompressed size must not exceed the
    limit of consumers.
    """
    try:
        kernel.decode_columns(
            batch.buffer, "", 0, batch.base_offset, check_crcs=False, left_out=OPTIONAL_COLUMNS
        )
    except MessageTooLargeError as error:
        raise ApiError(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from None
    except ProtocolError as error:
        raise ApiError(ErrorCode.INVALID_RECORD, str(error)) from None
