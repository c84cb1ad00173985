"""Parses records, in Python. ``record_parsing.pxi`` must behave exactly as this module.

For speed, loops use local variables and read one- and two-byte varints inline. Each record is checked once,
at its end: its fields must end at the position that its length gives.
"""

from bisect import bisect_left
from itertools import islice
from operator import lt

from pyklient.errors import CorruptRecordError
from pyklient.kernel.decode.message import Message, make_messages
from pyklient.protocol.records.layout import (
    CREATE_TIME,
    INT64_MAX,
    INT64_MIN,
    LOG_APPEND_TIME,
    RECORD_LEAST,
    Buffer,
    Columns,
    HeaderTuple,
)
from pyklient.protocol.records.varints import read_folded, unfold

__all__ = ["parse_messages", "parse_records"]


def parse_records(
    data: Buffer, count: int, base_offset: int, last_delta: int, base_timestamp: int
) -> Columns:
    """Parse *data*, the decompressed records of a batch of format 2, into one list per field. The other
    arguments are fields of the batch's header.

    Raises CorruptRecordError unless *data* is exactly *count* well-formed records whose offset deltas
    increase, and are within 0 … *last_delta*.
    """
    if not 0 <= count * RECORD_LEAST <= len(data):
        raise CorruptRecordError(f"a batch of {len(data)} bytes cannot hold {count} records")
    columns = Columns([], [], [], [], {})
    try:
        end = _fill(columns, bytes(data), base_timestamp, count)
    except IndexError:
        raise CorruptRecordError("a batch ends in the middle of a record") from None
    if end != len(data):
        raise CorruptRecordError(f"a batch has {len(data) - end} bytes after the last of its {count} records")
    deltas, timestamps = columns.offsets, columns.timestamps
    if count:
        last = deltas[-1] if deltas else count - 1
        if last > last_delta or not all(map(lt, deltas, islice(deltas, 1, None))):
            raise CorruptRecordError(f"the offset deltas of a batch do not increase, or exceed {last_delta}")
        if base_offset + last > INT64_MAX:
            raise CorruptRecordError(f"the offsets of a batch from {base_offset} on do not fit into 64 bits")
        if not deltas:
            deltas[:] = range(base_offset, base_offset + count)
        elif base_offset:
            deltas[:] = [base_offset + delta for delta in deltas]
        if (
            base_timestamp.bit_length() > 62
            and not INT64_MIN <= min(timestamps) <= max(timestamps) <= INT64_MAX
        ):
            raise CorruptRecordError("the timestamp of a record does not fit into 64 bits")
    return columns


def _fill(columns: Columns, data: bytes, base_timestamp: int, count: int) -> int:  # noqa: C901 - calls cost time
    """Parse *count* records of *data* into *columns*, with offset deltas as offsets, or no offsets if the
    deltas are dense (0, 1, 2 …). Return the end position. Raise IndexError if *data* is too short."""
    deltas, timestamps, keys, values, headers = columns
    position = 0
    for folded in range(0, 2 * count, 2):  # the next offset delta, in zigzag form, if they are dense
        if (low := data[position]) < 0x80:  # the length
            position += 1
        elif (high := data[position + 1]) < 0x80:
            low, position = low & 0x7F | high << 7, position + 2
        else:
            low, position = read_folded(data, position)
        end = position + (low >> 1)
        if low & 1:
            raise CorruptRecordError("a record has a negative length")
        if (low := data[position + 1]) < 0x80:  # the timestamp delta, behind a byte of unused attributes
            position += 2
        elif (high := data[position + 2]) < 0x80:
            low, position = low & 0x7F | high << 7, position + 3
        else:
            low, position = _read_timestamp_delta(data, position + 1, base_timestamp)
        timestamps.append(base_timestamp + (~(low >> 1) if low & 1 else low >> 1))
        if (low := data[position]) < 0x80:  # the offset delta
            position += 1
        elif (high := data[position + 1]) < 0x80:
            low, position = low & 0x7F | high << 7, position + 2
        else:
            low, position = read_folded(data, position)
        if low != folded or deltas:
            _append_delta(deltas, low, folded >> 1)
        position += 1
        if (low := data[position - 1]) == 1:
            keys.append(None)
        else:
            if low >= 0x80:
                low, position = read_folded(data, position - 1)
            if low & 1:
                raise CorruptRecordError("a key has a negative length")
            keys.append(data[position : (position := position + (low >> 1))])
        position += 1
        if (low := data[position - 1]) == 1:
            values.append(None)
        else:
            if low >= 0x80:
                if (high := data[position]) < 0x80:
                    low, position = low & 0x7F | high << 7, position + 1
                else:
                    low, position = read_folded(data, position - 1)
            if low & 1:
                raise CorruptRecordError("a value has a negative length")
            values.append(data[position : (position := position + (low >> 1))])
        if data[position]:
            headers[folded >> 1], position = _parse_headers(data, position)
        else:
            position += 1
        if position != end:
            raise CorruptRecordError(
                f"a record ends at byte {position} of its batch, but its length says {end}"
            )
    return position


def _append_delta(deltas: list[int], folded: int, index: int) -> None:
    """Append the offset delta of record *index*. *folded* is this delta in zigzag encoding. If *deltas* is
    empty, append the deltas of the earlier records first: they are dense (0, 1, 2 …)."""
    if folded & 1:
        raise CorruptRecordError("a record has a negative offset delta")
    deltas.extend(range(len(deltas), index))
    deltas.append(folded >> 1)


def _read_timestamp_delta(data: bytes, position: int, base_timestamp: int) -> tuple[int, int]:
    """Return the timestamp delta at *position* as an unsigned number in zigzag encoding, and the position
    after it.

    Raises CorruptRecordError if the timestamp does not fit into 64 bits.
    """
    folded, end = read_folded(data, position, 64)
    if folded >> 62 and not INT64_MIN <= base_timestamp + unfold(folded) <= INT64_MAX:
        raise CorruptRecordError("the timestamp of a record does not fit into 64 bits")
    return folded, end


def _parse_headers(data: bytes, position: int) -> tuple[HeaderTuple, int]:
    count = data[position]
    position += 1
    if count >= 0x80:
        count, position = read_folded(data, position - 1)
    if count & 1:
        raise CorruptRecordError("a record has a negative number of headers")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count >> 1):
        size = data[position]
        position += 1
        if size >= 0x80:
            size, position = read_folded(data, position - 1)
        if size & 1:
            raise CorruptRecordError("a header's name has a negative length")
        # Like the Java client: a name that is not UTF-8 must not make the record unreadable.
        name = data[position : position + (size >> 1)].decode("utf-8", "replace")
        position += size >> 1
        size = data[position]
        position += 1
        if size == 1:
            headers.append((name, None))
            continue
        if size >= 0x80:
            size, position = read_folded(data, position - 1)
        if size & 1:
            raise CorruptRecordError("a header's value has a negative length")
        headers.append((name, data[position : position + (size >> 1)]))
        position += size >> 1
    if position > len(data):
        raise IndexError
    return tuple(headers), position


def parse_messages(
    data: Buffer,
    count: int,
    base_offset: int,
    last_delta: int,
    base_timestamp: int,
    append_time: int | None,
    topic: str,
    partition: int,
    start_offset: int,
) -> list[Message]:
    """Return the messages of a batch of format 2 whose offsets are at least *start_offset*.

    *data* has all records of the batch, decompressed. *append_time* is the timestamp of all messages if the
    broker has set one, otherwise None. Raises the errors of :func:`parse_records`.
    """
    columns = parse_records(data, count, base_offset, last_delta, base_timestamp)
    columns = columns.since(bisect_left(columns.offsets, start_offset))
    if append_time is None:
        return make_messages(topic, partition, CREATE_TIME, columns)
    columns.timestamps[:] = [append_time] * len(columns.timestamps)
    return make_messages(topic, partition, LOG_APPEND_TIME, columns)
