"""What a partition takes in: produced bytes are checked here before anything of them reaches the log.

Checksums and header facts come first. Then the records are walked through once, as Kafka does: what nobody
could read is not stored. One batch is opened at a time, and no further than readers would.
"""

from typing import NamedTuple

from pyklient import kernel
from pyklient.broker.api_errors import Refusal
from pyklient.error_codes import ErrorCode
from pyklient.errors import MessageTooLargeError, ProtocolError, UnsupportedCodecError
from pyklient.kernel import encode_batch, read_records
from pyklient.protocol.primitives import Buffer
from pyklient.protocol.records import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    Compression,
    NewRecord,
    RecordBatch,
    assign_offsets,
    iter_batches,
)

__all__ = ["Intake", "Numbered", "inspect", "number", "renumber"]

_FIRST_VERSION_WITH_V2 = 3
_FIRST_VERSION_WITH_ZSTD = 7


class Intake(NamedTuple):
    """Checked batches. ``modern``: exactly one of format 2, which is stored as it stands."""

    batches: list[RecordBatch]
    modern: bool


class Numbered(NamedTuple):
    """Bytes with their final offsets, ready to be stored."""

    data: Buffer
    last_offset: int
    max_timestamp: int


def inspect(records: Buffer | None, version: int, *, max_message_bytes: int, segment_bytes: int) -> Intake:
    """The batches in *records* of a Produce request of *version*, each one sound.

    Raises Refusal: CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, INVALID_RECORD,
    INVALID_TIMESTAMP, UNSUPPORTED_COMPRESSION_TYPE, INVALID_TXN_STATE.
    """
    data = memoryview(records) if records is not None else memoryview(b"")
    batches: list[RecordBatch] = []
    try:
        for batch in iter_batches(data):
            if batch.size > max_message_bytes:
                raise Refusal(
                    ErrorCode.MESSAGE_TOO_LARGE,
                    f"a batch of {batch.size} bytes, {max_message_bytes} are allowed",
                )
            batch.verify()
            batches.append(batch)
        codecs = [batch.compression for batch in batches]
    except ProtocolError as error:
        raise Refusal(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    except UnsupportedCodecError as error:
        raise Refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, str(error)) from None
    if Compression.ZSTD in codecs and version < _FIRST_VERSION_WITH_ZSTD:
        raise Refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7")
    if sum(batch.size for batch in batches) != len(data):
        _refuse_tail(data, max_message_bytes)
    if len(data) > segment_bytes:
        raise Refusal(
            ErrorCode.RECORD_LIST_TOO_LARGE, f"{len(data)} bytes do not fit a segment of {segment_bytes}"
        )
    _check_set(batches, version)
    return Intake(batches, len(batches) == 1 and batches[0].magic == 2)


def _refuse_tail(data: memoryview, max_message_bytes: int) -> None:
    claimed = int.from_bytes(data[8:12], "big", signed=True) + 12
    if claimed > max_message_bytes:
        raise Refusal(
            ErrorCode.MESSAGE_TOO_LARGE, f"a batch of {claimed} bytes, {max_message_bytes} are allowed"
        )
    raise Refusal(ErrorCode.CORRUPT_MESSAGE, "the record bytes end inside a batch")


def _check_set(batches: list[RecordBatch], version: int) -> None:
    if version >= _FIRST_VERSION_WITH_V2 and (len(batches) != 1 or batches[0].magic != 2):
        raise Refusal(
            ErrorCode.INVALID_RECORD, f"Produce version {version} takes one batch of format 2 for a partition"
        )
    if len({batch.magic for batch in batches}) > 1:
        raise Refusal(ErrorCode.INVALID_RECORD, "batches of different formats in one request")
    for batch in batches:
        if batch.timestamp_type == 1:
            raise Refusal(ErrorCode.INVALID_TIMESTAMP, "only the broker may stamp with its own time")
        if batch.magic == 2:
            _check_header(batch)
            _check_records(batch)


def _check_header(batch: RecordBatch) -> None:
    if batch.is_control:
        raise Refusal(ErrorCode.INVALID_RECORD, "control records come from the broker alone")
    if batch.is_transactional:
        raise Refusal(ErrorCode.INVALID_TXN_STATE, "this broker has no transactions")
    if batch.count < 1 or batch.last_offset - batch.base_offset + 1 != batch.count:
        raise Refusal(
            ErrorCode.INVALID_RECORD,
            f"{batch.count} records, but {batch.last_offset - batch.base_offset + 1} offsets",
        )
    if batch.producer_id >= 0 and (batch.base_sequence < 0 or batch.producer_epoch < 0):
        raise Refusal(ErrorCode.INVALID_RECORD, "a producer id without epoch or sequence")


def _check_records(batch: RecordBatch) -> None:
    """A checksum says only that the bytes are those that were sent: there must be as many records in them as
    the header says, and no more of them than readers take."""
    try:
        kernel.decode_columns(batch.buffer, "", 0, batch.base_offset, check_crcs=False)
    except MessageTooLargeError as error:
        raise Refusal(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from None
    except ProtocolError as error:
        raise Refusal(ErrorCode.INVALID_RECORD, str(error)) from None


def number(batch: RecordBatch, base_offset: int, stamp: int | None) -> Numbered:
    """One batch of format 2, numbered where it lies: its records are not touched.

    *stamp*, milliseconds since 1970, replaces the producer's timestamps where it is given.
    """
    data = batch.buffer if not batch.buffer.readonly else bytearray(batch.buffer)
    next_offset, max_timestamp = assign_offsets(data, base_offset, log_append_time_ms=stamp)
    return Numbered(data, next_offset - 1, max_timestamp)


def renumber(batches: list[RecordBatch], base_offset: int, stamp: int | None) -> Numbered:
    """Messages of formats 0 and 1 with their offsets, in the format and compression they came in.

    Compressed sets carry offsets inside, so they are opened (within the codec's bounds) and made anew.
    Raises Refusal for one that does not parse, or that opens to more than is allowed.
    """
    parts: list[bytes] = []
    offset, newest = base_offset, NO_TIMESTAMP
    try:
        for batch in batches:
            stamps = batch.magic == 1 and stamp is not None
            records = [
                NewRecord(
                    stamp if stamps and stamp is not None else record.timestamp_ms, record.key, record.value
                )
                for record in read_records(batch)
            ]
            parts.append(
                encode_batch(
                    records,
                    magic=batch.magic,
                    compression=batch.compression,
                    base_offset=offset,
                    timestamp_type=LOG_APPEND_TIME if stamps else CREATE_TIME,
                )
            )
            offset += len(records)
            newest = max(newest, max(record.timestamp_ms for record in records))
    except MessageTooLargeError as error:
        raise Refusal(ErrorCode.MESSAGE_TOO_LARGE, str(error)) from None
    except ProtocolError as error:
        raise Refusal(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
    return Numbered(b"".join(parts), offset - 1, newest)
