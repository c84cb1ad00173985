"""Bytes written by hand from Kafka's layouts, and hashes that its Java client computes."""

import zlib
from typing import Any

import crc32c
import lz4.frame
import pytest

from pyklient.kernel import encode_batch, read_records
from pyklient.protocol.records import Compression, NewRecord, batch_header, iter_batches
from pyklient.protocol.records.lz4_header import with_classic_checksum, with_standard_checksum, xxh32

pytestmark = pytest.mark.both_kernels


def test_both_checksums_give_their_published_check_values() -> None:
    assert zlib.crc32(b"123456789") == 0xCBF43926
    assert crc32c.crc32c(b"123456789") == 0xE3069283


def test_an_entry_of_format_0() -> None:
    entry = encode_batch([NewRecord(-1, None, b"42")], magic=0)
    assert entry.hex(" ", 4) == "00000000 00000000 00000010 17d927ff 0000ffff ffff0000 00023432"
    assert len(entry) == 28


def test_an_entry_of_format_1() -> None:
    entry = encode_batch([NewRecord(1000, None, b"42")], magic=1, base_offset=3)
    assert entry[:8].hex() == "0000000000000003"
    assert entry[8:].hex() == "00000018ecd6d149010000000000000003e8ffffffff000000023432"


def test_an_empty_batch_of_format_2_as_compaction_leaves_it() -> None:
    header = batch_header(
        b"",
        count=0,
        base_timestamp=-1,
        max_timestamp=1234,
        base_offset=5,
        last_offset_delta=2,
        producer_id=9,
        producer_epoch=0,
        base_sequence=0,
    )
    assert len(header) == 61
    assert int.from_bytes(header[8:12], "big") == 49
    assert header[17:21].hex() == "4dc803df"
    [batch] = iter_batches(header)
    batch.verify()
    assert (batch.base_offset, batch.last_offset, batch.next_offset) == (5, 7, 8)
    assert (batch.count, read_records(batch), batch.max_timestamp) == (0, [], 1234)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (9, 0, 0)


def test_a_record_of_format_2(kernel: Any) -> None:
    record = kernel.encode_record(5, 3, b"k", None, [("h", b"1"), ("n", None)])
    #       length attr ts+5 offset+3 key1 k  null  2 headers  name1 h  value1 1  name1 n  null
    assert record.hex() == "1c000a06026b010402680231026e01"


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"", 275646681),
        (b"21", 1173551340),
        (b"foobar", 1357151166),
        (b"a-little-bit-long-string", 1161502112),
        (b"a-little-bit-longer-string", 661178819),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", 2088585677),
        (b"abc", 479470107),
        (bytes(range(200, 256)), 1687799443),
    ],
)
def test_murmur2_is_javas_without_its_sign(kernel: Any, key: bytes, expected: int) -> None:
    assert kernel.murmur2(key) == expected
    assert kernel.murmur2(bytearray(key)) == kernel.murmur2(memoryview(key)) == expected


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"", 0x02CC5D05), (b"a", 0x550D7456), (b"abc", 0x32D153FF)],
)
def test_xxh32_of_short_input(data: bytes, expected: int) -> None:
    assert xxh32(data) == expected


def test_the_standard_checksum_is_that_of_the_lz4_library() -> None:
    for size in range(3):
        frame = lz4.frame.compress(b"x" * 10**size, store_size=True)
        assert with_standard_checksum(frame) == frame
        spoilt = bytearray(frame)
        spoilt[14] ^= 0xFF
        assert with_standard_checksum(spoilt) == frame


def test_the_frame_header_of_old_producers_has_the_checksum_that_they_computed() -> None:
    """The LZ4 specification gives 0x82 for these flags; Kafka 0.8 wrote 0x7f."""
    payload = encode_batch([NewRecord(-1, None, b"x")], magic=0, compression=Compression.LZ4)
    frame = payload[payload.index(b"\x04\x22\x4d\x18") :]
    assert frame[:6].hex() == "04224d186040"
    assert with_standard_checksum(frame)[6] == 0x82
    assert with_classic_checksum(with_standard_checksum(frame)) == frame != with_standard_checksum(frame)


def test_format_1_keeps_the_standard_checksum() -> None:
    entry = encode_batch([NewRecord(-1, None, b"x")], magic=1, compression=Compression.LZ4)
    assert entry[entry.index(b"\x04\x22\x4d\x18") :][:7].hex() == "04224d18604082"
