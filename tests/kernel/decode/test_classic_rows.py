"""Behaviours of Kafka's classic clients, by their numbers: what records of each format become."""

from typing import Any, Final

import pytest

from pyklient.kernel import Message, encode_batch
from pyklient.protocol.records import LOG_APPEND_TIME, Compression, NewRecord, compress
from pyklient.protocol.records.message_set import encode_entry

pytestmark = pytest.mark.both_kernels

_GZIP: Final = Compression.GZIP


def decoded(kernel: Any, data: bytes) -> list[Message]:
    return list(kernel.decode(data, "t", 0, 0))


def wrapper(offset: int, inner: tuple[int, ...], *, timestamp_ms: int = 1, timestamp_type: int = 0) -> bytes:
    """Return a compressed message of format 1 with messages at the offsets *inner*, written at 1000 and
    later."""
    entries = b"".join(encode_entry(1, at, 1000 + at, None, b"%d" % at) for at in inner)
    attributes = _GZIP | timestamp_type << 3
    return encode_entry(1, offset, timestamp_ms, None, compress(_GZIP, entries, 1), attributes)


@pytest.mark.parametrize(("inner", "absolute"), [((0, 1, 2), [10, 11, 12]), ((0, 2), [10, 12])])
def test_row_54_the_offset_of_a_wrapper_is_that_of_its_last_message(
    kernel: Any, inner: tuple[int, ...], absolute: list[int]
) -> None:
    assert [message.offset for message in decoded(kernel, wrapper(12, inner))] == absolute


def test_row_55_the_time_of_a_wrapper_that_the_broker_set_overrides_those_inside(kernel: Any) -> None:
    by_producer = decoded(kernel, wrapper(12, (0, 1), timestamp_ms=1001))
    assert [(each.timestamp_ms, each.timestamp_type) for each in by_producer] == [(1000, 0), (1001, 0)]
    by_broker = decoded(kernel, wrapper(12, (0, 1), timestamp_ms=5000, timestamp_type=LOG_APPEND_TIME))
    assert [(each.timestamp_ms, each.timestamp_type) for each in by_broker] == [(5000, 1), (5000, 1)]


def test_row_57_a_control_batch_is_not_handed_out_and_the_position_advances(kernel: Any) -> None:
    record = NewRecord(1000, b"\x00\x00\x00\x01", bytes(6))
    commit = encode_batch([record], base_offset=7, producer_id=9, transactional=True, control=True)
    chunk = kernel.decode(commit, "t", 0, 7)
    assert list(chunk) == []
    assert (chunk.next_offset, chunk.nbytes) == (8, len(commit))


def test_row_58_an_empty_batch_yields_nothing_and_the_position_is_behind_its_last_offset(kernel: Any) -> None:
    """The batch is that of the log cleaner: 61 bytes, no records, its offsets kept."""
    header = bytearray(encode_batch([], base_offset=5, producer_id=9))
    assert len(header) == 61
    kept = encode_batch([NewRecord(1234, None, b"x")] * 3, base_offset=5, producer_id=9)
    header[23:27] = kept[23:27]
    chunk = kernel.decode(bytes(header), "t", 0, 5, check_crcs=False)
    assert list(chunk) == []
    assert chunk.next_offset == 8
