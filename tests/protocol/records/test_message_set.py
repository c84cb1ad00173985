"""Formats 0 and 1: wrappers, their offsets and timestamps, and sets that no broker would write."""

import zlib
from typing import Any

import pytest

from pyklient.errors import CorruptRecordError
from pyklient.kernel import read_records
from pyklient.protocol.records import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    NO_TIMESTAMP_TYPE,
    Compression,
    DecodedRecord,
    compress,
    decompress,
    iter_batches,
)
from pyklient.protocol.records.message_set import encode_entry, encode_set

pytestmark = pytest.mark.both_kernels

RECORDS = [(30, b"a", b"1"), (10, b"b", b"2"), (20, None, None)]


def wrapper(
    magic: int,
    inner: bytes,
    *,
    offset: int,
    timestamp: int = 99,
    attributes: int = Compression.GZIP,
) -> bytes:
    """Return *inner* as one compressed entry."""
    payload = compress(Compression.GZIP, inner, magic)
    return encode_entry(magic, offset, timestamp, None, payload, attributes)


def read(data: bytes) -> list[DecodedRecord]:
    [batch] = iter_batches(data)
    batch.verify()
    return read_records(batch)


def test_inner_offsets_are_absolute_in_format_0() -> None:
    inner = b"".join(encode_entry(0, offset, -1, None, b"%d" % offset) for offset in (4, 7, 9))
    records = read(wrapper(0, inner, offset=9))
    assert [record.offset for record in records] == [4, 7, 9]
    assert {(record.timestamp_ms, record.timestamp_type) for record in records} == {
        (NO_TIMESTAMP, NO_TIMESTAMP_TYPE)
    }


def test_inner_offsets_count_from_the_first_record_in_format_1() -> None:
    inner = b"".join(encode_entry(1, relative, 5, None, b"x") for relative in (0, 1, 2))
    assert [record.offset for record in read(wrapper(1, inner, offset=102))] == [100, 101, 102]


@pytest.mark.parametrize(("magic", "expected"), [(0, [7, 8, 12]), (1, [0, 1, 5])])
def test_inner_offsets_are_written_as_the_format_has_them(magic: int, expected: list[int]) -> None:
    written = encode_set(RECORDS, [7, 8, 12], magic, Compression.GZIP)
    inner = decompress(Compression.GZIP, written[26 + 8 * magic :], magic)
    assert [batch.last_offset for batch in iter_batches(inner)] == expected


def test_inner_offsets_may_have_gaps_after_compaction() -> None:
    inner = b"".join(encode_entry(1, relative, 5, None, b"x") for relative in (1, 5, 6))
    assert [record.offset for record in read(wrapper(1, inner, offset=106))] == [101, 105, 106]


def test_a_wrapper_at_offset_0_counts_from_0() -> None:
    """Some producers leave the wrapper's offset at 0 instead of setting it to the last inner offset."""
    inner = b"".join(encode_entry(1, relative, 5, None, b"x") for relative in (0, 1, 2))
    assert [record.offset for record in read(wrapper(1, inner, offset=0))] == [0, 1, 2]


def test_records_keep_their_own_times_where_the_producer_set_them() -> None:
    written = encode_set(RECORDS, [7, 8, 9], 1, Compression.SNAPPY)
    [batch] = iter_batches(written)
    assert batch.max_timestamp == 30
    assert [record.timestamp_ms for record in read_records(batch)] == [30, 10, 20]
    assert {record.timestamp_type for record in read_records(batch)} == {CREATE_TIME}


def test_the_wrappers_log_append_time_overrides_all_inner_times() -> None:
    inner = b"".join(encode_entry(1, relative, 5, None, b"x") for relative in (0, 1))
    records = read(wrapper(1, inner, offset=1, timestamp=77, attributes=Compression.GZIP | 0x08))
    assert [(record.timestamp_ms, record.timestamp_type) for record in records] == [(77, LOG_APPEND_TIME)] * 2


def test_a_wrapper_is_at_the_offset_of_its_last_record_and_counts_when_asked() -> None:
    [batch] = iter_batches(encode_set(RECORDS, [7, 8, 12], 1, Compression.LZ4))
    assert (batch.last_offset, batch.next_offset, batch.base_offset, batch.count) == (12, 13, 7, 3)


@pytest.mark.parametrize("magic", [0, 1])
class TestHostileSets:
    def test_compressed_twice(self, magic: int) -> None:
        inner = wrapper(magic, encode_entry(magic, 0, 1, None, b"x"), offset=0)
        with pytest.raises(CorruptRecordError, match="holds another compressed message set"):
            read(wrapper(magic, inner, offset=0))

    def test_formats_mixed(self, magic: int) -> None:
        with pytest.raises(
            CorruptRecordError, match=f"a compressed message set of format {magic} holds a message of format"
        ):
            read(wrapper(magic, encode_entry(1 - magic, 0, 1, None, b"x"), offset=0))

    def test_nothing_inside(self, magic: int) -> None:
        with pytest.raises(CorruptRecordError, match="holds no messages"):
            read(wrapper(magic, b"", offset=0))

    def test_no_value(self, magic: int) -> None:
        with pytest.raises(CorruptRecordError, match="has no value"):
            read(encode_entry(magic, 0, 1, None, None, Compression.GZIP))

    def test_cut_off_inside(self, magic: int) -> None:
        inner = encode_entry(magic, 0, 1, b"key", b"value")
        for cut in range(1, len(inner)):
            with pytest.raises(CorruptRecordError):
                read(wrapper(magic, inner[:cut], offset=0))

    def test_an_inner_checksum_that_is_wrong(self, kernel: Any, magic: int) -> None:
        inner = bytearray(encode_entry(magic, 0, 1, b"key", b"value"))
        inner[-1] ^= 1
        spoilt = wrapper(magic, bytes(inner), offset=0)
        with pytest.raises(CorruptRecordError, match="message 0 in a compressed message set"):
            kernel.decode(spoilt, "t", 0, 0)
        assert len(kernel.decode(spoilt, "t", 0, 0, check_crcs=False).hand_out(2)) == 1

    @pytest.mark.parametrize("length", [-2, 1 << 20, (1 << 31) - 1, -(1 << 31)])
    @pytest.mark.parametrize("field", ["key", "value"])
    def test_lengths_that_lie(self, magic: int, length: int, field: str) -> None:
        entry = bytearray(encode_entry(magic, 0, 1, b"key", b"value"))
        at = (26 if magic else 18) + (7 if field == "value" else 0)
        entry[at : at + 4] = length.to_bytes(4, "big", signed=True)
        entry[12:16] = zlib.crc32(entry[16:]).to_bytes(4, "big")
        with pytest.raises(CorruptRecordError):
            read(bytes(entry))

    def test_offsets_beyond_64_bits(self, magic: int) -> None:
        inner = b"".join(encode_entry(magic, offset, 1, None, b"x") for offset in ((1 << 63) - 1, 5))
        if magic:
            with pytest.raises(CorruptRecordError, match="invalid inner offsets"):
                read(wrapper(magic, inner, offset=(1 << 63) - 1))
        else:
            assert [record.offset for record in read(wrapper(magic, inner, offset=5))] == [(1 << 63) - 1, 5]
