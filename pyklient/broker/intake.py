"""What a partition takes in: produced bytes are checked here before anything of them reaches the log.

Checksums and header facts decide, records are not looked at: a compression bomb costs this broker nothing.
"""

from typing import NamedTuple

from pyklient.broker.refusal import ErrorCode, Refusal
from pyklient.errors import ProtocolError
from pyklient.protocol.primitives import Buffer
from pyklient.protocol.records import Compression, RecordBatch, iter_batches

__all__ = ["Intake", "inspect"]

_FIRST_VERSION_WITH_V2 = 3
_FIRST_VERSION_WITH_ZSTD = 7


class Intake(NamedTuple):
    """Checked batches. ``modern``: exactly one of format 2, which is stored as it stands."""

    batches: list[RecordBatch]
    modern: bool


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
    except ProtocolError as error:
        raise Refusal(ErrorCode.CORRUPT_MESSAGE, str(error)) from None
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
        if batch.compression == Compression.ZSTD and version < _FIRST_VERSION_WITH_ZSTD:
            raise Refusal(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "zstd needs Produce version 7")
        if batch.timestamp_type == 1:
            raise Refusal(ErrorCode.INVALID_TIMESTAMP, "only the broker may stamp with its own time")
        if batch.magic == 2:
            _check_header(batch)


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
