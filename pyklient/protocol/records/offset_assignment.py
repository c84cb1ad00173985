"""Assigns offsets to batches, as a broker does before it stores them."""

from pyklient.protocol.records.batch_header import iter_batches
from pyklient.protocol.records.checksum import crc32c
from pyklient.protocol.records.layout import (
    ATTRIBUTES_AT,
    CRC_AT,
    LEADER_EPOCH_AT,
    MAX_TIMESTAMP_AT,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_BIT,
)

__all__ = ["assign_offsets"]


def assign_offsets(
    buffer: bytearray | memoryview,
    base_offset: int,
    leader_epoch: int = 0,
    log_append_time_ms: int | None = None,
) -> tuple[int, int]:
    """Write offsets from *base_offset* on into the headers of the batches of format 2 in *buffer*.

    Returns the offset after the last record, and the latest timestamp. The checksum does not cover the offset
    and the leader epoch. If *log_append_time_ms* is given, it replaces the producer's timestamps, and the
    checksum is computed again. Raises ValueError for older formats, which may have offsets inside a
    compressed set.
    """
    view = memoryview(buffer)
    next_offset = base_offset
    latest = NO_TIMESTAMP
    for batch in iter_batches(view):
        if batch.magic != 2:
            raise ValueError(f"offsets cannot be assigned in place to a batch of format {batch.magic}")
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
