"""The codecs: round trips, the framings that other clients use, and input that declares a wrong size."""

import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import suppress
from random import Random
from time import monotonic, process_time
from typing import Any, Final

import lz4.frame
import pytest
import snappy
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from pyklient.errors import CorruptRecordError, MessageTooLargeError, UnsupportedCodecError
from pyklient.protocol.records import DEFAULT_MAX_DECOMPRESSED, Compression, compress, decompress
from pyklient.protocol.records.compression import Decompressor

pytestmark = pytest.mark.both_kernels

CODECS: Final = list(Compression)[1:]
_ids = [codec.name.lower() for codec in CODECS]
MIB: Final = 1 << 20


@settings(deadline=None)
@given(st.binary(max_size=500), st.integers(1, 2000), st.sampled_from(list(Compression)))
def test_what_goes_in_comes_out(data: bytes, times: int, codec: Compression) -> None:
    for magic in (1, 2) if codec == Compression.ZSTD else (0, 1, 2):
        if codec == Compression.ZSTD and magic < 2:
            continue
        assert decompress(codec, memoryview(compress(codec, data * times, magic)), magic) == data * times


zstd_data = st.tuples(st.binary(max_size=40), st.integers(0, 300), st.booleans(), st.booleans()).map(
    lambda made: zstandard.ZstdCompressor(write_content_size=made[2], write_checksum=made[3]).compress(
        made[0] * made[1]
    )
)


def outcome(call: Callable[[], bytes]) -> Any:
    try:
        return call()
    except (CorruptRecordError, MessageTooLargeError) as error:
        return type(error), str(error)


@settings(deadline=None, max_examples=300)
@given(
    st.sampled_from(CODECS),
    st.lists(zstd_data | st.binary(max_size=40), min_size=1, max_size=3),
    st.integers(0, 5_000),
    st.none() | st.integers(0, 1 << 14),
)
def test_a_decompressor_for_many_batches_does_what_decompress_does(
    codec: Compression, parts: list[bytes], limit: int, spoilt: int | None
) -> None:
    data = bytearray(b"".join(parts))
    if codec is not Compression.ZSTD:
        data = bytearray(compress(codec, data))
    if spoilt is not None and data:
        data[spoilt % len(data)] ^= 1 << spoilt % 8
    decompressor = Decompressor(limit)
    for _ in range(2):
        found = outcome(lambda: decompressor(int(codec), bytes(data)))
        assert found == outcome(lambda: decompress(codec, bytes(data), 2, limit))


@pytest.mark.parametrize("codec", CODECS, ids=_ids)
def test_a_decompressor_of_a_small_batch_needs_little_memory(codec: Compression) -> None:
    # One is made for each chunk that a loop reads, so it must not fill megabytes with zeros.
    data = compress(codec, b"x" * 1000)
    Decompressor(MIB)(int(codec), data)  # imports, and what is done once in a process
    tracemalloc.start()
    try:
        assert Decompressor(MIB)(int(codec), data) == b"x" * 1000
        assert tracemalloc.get_traced_memory()[1] < MIB
    finally:
        tracemalloc.stop()


@settings(deadline=None, max_examples=300)
@given(
    st.lists(zstd_data | st.binary(max_size=9), min_size=1, max_size=2),
    st.integers(0, 9),
    st.none() | st.integers(0, 1 << 10),
)
def test_small_zstd_data_is_read_to_its_end_as_a_stream_is(
    parts: list[bytes], cut: int, spoilt: int | None
) -> None:
    data = bytearray(b"".join(parts))
    del data[len(data) - cut :]
    if spoilt is not None and data:
        data[spoilt % len(data)] ^= 1 << spoilt % 8
    reader = zstandard.ZstdDecompressor(max_window_size=128 * MIB).stream_reader(
        bytes(data), read_across_frames=True
    )
    expected = b""
    try:
        zstandard.frame_content_size(bytes(data))
        while part := reader.read(MIB):
            expected += part
    except zstandard.ZstdError:
        with pytest.raises((CorruptRecordError, MessageTooLargeError)):
            decompress(Compression.ZSTD, bytes(data))
    else:
        try:
            assert decompress(Compression.ZSTD, bytes(data)) == expected
        except MessageTooLargeError:
            assert zstandard.frame_content_size(bytes(data)) > DEFAULT_MAX_DECOMPRESSED


def test_codecs_are_known_by_kafkas_names() -> None:
    names = ["none", "gzip", "snappy", "lz4", "zstd"]
    assert [Compression.of(name) for name in names] == list(range(5)) == list(Compression)
    assert Compression.of(None) is Compression.NONE
    with pytest.raises(UnsupportedCodecError, match="'brotli' is not a compression codec: use none, gzip, "):
        Compression.of("brotli")


@pytest.mark.parametrize("magic", [0, 1])
def test_zstd_needs_format_2(magic: int) -> None:
    with pytest.raises(UnsupportedCodecError, match="zstd needs record format 2"):
        compress(Compression.ZSTD, b"x", magic)
    with pytest.raises(UnsupportedCodecError, match="zstd needs record format 2"):
        decompress(Compression.ZSTD, compress(Compression.ZSTD, b"x"), magic)


def test_snappy_is_read_raw_and_in_xerial_blocks_of_any_size() -> None:
    data = Random(1).randbytes(5000) + bytes(35_000)
    assert decompress(Compression.SNAPPY, snappy.compress(data)) == data
    for size in (1, 1000, 32 << 10, len(data)):
        framed = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
        for at in range(0, len(data), size):
            block = snappy.compress(data[at : at + size])
            framed += len(block).to_bytes(4, "big") + block
        assert decompress(Compression.SNAPPY, framed) == data


def test_lz4_frames_of_other_writers_are_read() -> None:
    data = Random(1).randbytes(5000) + bytes(300_000)
    for linked in (False, True):
        for checksums in (False, True):
            frame = lz4.frame.compress(
                data,
                block_linked=linked,
                content_checksum=checksums,
                block_checksum=checksums,
                store_size=True,
            )
            assert decompress(Compression.LZ4, frame, 2) == data
            assert decompress(Compression.LZ4, frame, 0) == data


def test_a_wrong_lz4_header_checksum_is_tolerated_in_format_0_only() -> None:
    classic = compress(Compression.LZ4, b"x" * 100, 0)
    assert decompress(Compression.LZ4, classic, 0) == b"x" * 100
    for magic in (1, 2):
        with pytest.raises(CorruptRecordError, match="lz4 data cannot be decompressed"):
            decompress(Compression.LZ4, classic, magic)


@pytest.mark.parametrize("random", [5000, 2 * MIB], ids=["compresses well", "hardly compresses"])
def test_zstd_is_read_with_and_without_a_declared_size_and_in_several_frames(random: int) -> None:
    data = Random(1).randbytes(random) + bytes(3_000_000)
    sized = zstandard.ZstdCompressor().compress(data)
    unsized = zstandard.ZstdCompressor(write_content_size=False).compress(data)
    assert decompress(Compression.ZSTD, sized) == decompress(Compression.ZSTD, unsized) == data
    assert decompress(Compression.ZSTD, unsized + sized) == data + data


@pytest.mark.parametrize("codec", CODECS, ids=_ids)
def test_cut_off_anywhere_is_corrupt_or_shorter(codec: Compression) -> None:
    """zstd has no end mark that its reader reports, so missing records are recognized by their number."""
    data = Random(4).randbytes(200) + b"abc" * 200
    whole = compress(codec, data)
    for cut in range(len(whole)):
        try:
            found = decompress(codec, whole[:cut])
        except CorruptRecordError:
            continue
        assert codec in (Compression.ZSTD, Compression.SNAPPY)
        assert found == data[: len(found)] != data


@pytest.mark.parametrize(
    "codec", [Compression.GZIP, Compression.SNAPPY, Compression.ZSTD], ids=lambda c: c.name
)
def test_several_streams_behind_each_other_are_one(codec: Compression) -> None:
    parts = [b"", b"x" * 100, Random(7).randbytes(3 * MIB), b"", b"y", b""]
    whole = b"".join(compress(codec, part) for part in parts)
    assert decompress(codec, memoryview(whole)) == b"".join(parts)
    size = len(b"".join(parts))
    assert len(decompress(codec, whole, 2, size)) == size
    with pytest.raises(MessageTooLargeError, match="max_decompressed"):
        decompress(codec, whole, 2, size - 1)


@pytest.mark.parametrize("codec", CODECS, ids=_ids)
@pytest.mark.parametrize("garbage", [b"m", b"more", b"\x1f\x8b\x08", b"\x82SNAPPY\x00", bytes(1000)], ids=len)
def test_bytes_behind_the_end_are_corrupt(codec: Compression, garbage: bytes) -> None:
    for count in (1, 3):
        with pytest.raises(CorruptRecordError, match=f"{codec.name.lower()} data cannot be decompressed"):
            decompress(codec, compress(codec, b"x" * 100) * count + garbage)


def test_a_second_lz4_frame_is_corrupt() -> None:
    with pytest.raises(CorruptRecordError, match="is incomplete, or has bytes after its end"):
        decompress(Compression.LZ4, compress(Compression.LZ4, b"x" * 100) * 2)


def test_a_member_of_gzip_that_is_cut_off_is_corrupt() -> None:
    whole = compress(Compression.GZIP, b"x" * 100)
    for cut in range(1, len(whole)):
        with pytest.raises(
            CorruptRecordError, match="gzip data cannot be decompressed: the compressed data is cut off"
        ):
            decompress(Compression.GZIP, whole + whole[:cut])


def test_many_members_of_gzip_take_no_time_that_grows_with_their_square() -> None:
    member = compress(Compression.GZIP, b"")

    def price(count: int) -> float:
        started = process_time()
        assert decompress(Compression.GZIP, member * count) == b""
        return process_time() - started

    few, many = (min(price(count) for _ in range(3)) for count in (2_000, 40_000))
    assert many < 20 * few * 5


@settings(deadline=None)
@given(st.binary(max_size=400), st.sampled_from(CODECS))
def test_garbage_is_corrupt_or_harmless(data: bytes, codec: Compression) -> None:
    for magic in (2,) if codec == Compression.ZSTD else (0, 2):
        with suppress(CorruptRecordError, MessageTooLargeError):
            decompress(codec, data, magic, MIB)


@settings(deadline=None)
@given(st.data(), st.sampled_from(CODECS))
def test_spoilt_data_is_corrupt_or_harmless(data: st.DataObject, codec: Compression) -> None:
    spoilt = bytearray(compress(codec, Random(3).randbytes(300) + bytes(5000)))
    for _ in range(data.draw(st.integers(1, 4))):
        spoilt[data.draw(st.integers(0, len(spoilt) - 1))] = data.draw(st.integers(0, 255))
    with suppress(CorruptRecordError, MessageTooLargeError):
        decompress(codec, spoilt, 2, MIB)


@pytest.mark.parametrize("codec", CODECS, ids=_ids)
def test_the_limit_is_exact(codec: Compression) -> None:
    data = compress(codec, bytes(3 * MIB + 5))
    assert len(decompress(codec, data, 2, 3 * MIB + 5)) == 3 * MIB + 5
    with pytest.raises(MessageTooLargeError, match="max_decompressed"):
        decompress(codec, data, 2, 3 * MIB + 4)


def test_the_limit_is_exact_for_small_data_that_declares_no_size() -> None:
    for data in (b"", b"x", bytes(1000), Random(5).randbytes(1000)):
        frame = zstandard.ZstdCompressor(write_content_size=False).compress(data)
        assert decompress(Compression.ZSTD, frame, 2, len(data)) == data
        if data:
            with pytest.raises(MessageTooLargeError, match="max_decompressed"):
                decompress(Compression.ZSTD, frame, 2, len(data) - 1)


def _streamed(start: Callable[[], Any]) -> bytes:
    stream = start()
    pieces: list[bytes] = [stream.compress(bytes(MIB)) for _ in range(256)]
    return b"".join((*pieces, stream.flush()))


def _lz4_bomb(size: int) -> bytes:
    stream = lz4.frame.LZ4FrameCompressor()
    return b"".join((stream.begin(size), *(stream.compress(bytes(MIB)) for _ in range(256)), stream.flush()))


def _xerial_bomb() -> bytes:
    block = snappy.compress(bytes(32 << 10))
    return b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01" + (len(block).to_bytes(4, "big") + block) * 8192


BOMBS: Final[dict[str, tuple[Compression, Callable[[], bytes]]]] = {
    "gzip": (Compression.GZIP, lambda: _streamed(lambda: zlib.compressobj(1, wbits=31))),
    "gzip members": (Compression.GZIP, lambda: compress(Compression.GZIP, bytes(MIB)) * 256),
    "snappy blocks": (Compression.SNAPPY, _xerial_bomb),
    # one zero, then 64 more a million times
    "snappy raw": (Compression.SNAPPY, lambda: b"\x81\x80\x80\x20\x00\x00" + b"\xfe\x01\x00" * MIB),
    "snappy streams": (Compression.SNAPPY, lambda: compress(Compression.SNAPPY, bytes(MIB)) * 256),
    "lz4": (Compression.LZ4, lambda: _lz4_bomb(0)),
    "lz4 sized": (Compression.LZ4, lambda: _lz4_bomb(256 * MIB)),
    "zstd": (Compression.ZSTD, lambda: _streamed(lambda: zstandard.ZstdCompressor().compressobj())),
    "zstd sized": (Compression.ZSTD, lambda: zstandard.ZstdCompressor().compress(bytes(256 * MIB))),
}
"""A few megabytes at most that expand to more than any limit here."""

_IN_LITTLE_MEMORY: Final = """
import resource, sys
from pyklient.errors import KafkaError
from pyklient.protocol.records import Compression, decompress
from pyklient.protocol.records.compression import Decompressor
codec, limit, memory = (int(argument) for argument in sys.argv[1:])
bomb = sys.stdin.buffer.read()
with open("/proc/self/statm") as statm:
    now = int(statm.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (now + memory, now + memory))
once = lambda: decompress(Compression(codec), bomb, 2, limit)
for call in (once, lambda: Decompressor(limit)(codec, bomb)):
    try:
        call()
    except (KafkaError, MemoryError) as error:
        print(type(error).__name__)
"""


@pytest.mark.parametrize("name", BOMBS)
def test_a_compression_bomb_is_an_error_in_bounded_memory_and_time(name: str) -> None:
    """The process may use at most twice the limit and a little more, including the codecs' own libraries."""
    codec, make = BOMBS[name]
    command = [sys.executable, "-c", _IN_LITTLE_MEMORY, str(codec.value), str(16 * MIB), str(44 * MIB)]
    started = monotonic()
    ran = subprocess.run(command, input=make(), capture_output=True, timeout=60, check=False)
    assert (ran.stdout, ran.stderr) == (b"MessageTooLargeError\n" * 2, b"")
    assert monotonic() - started < 30


def test_declared_sizes_are_not_believed() -> None:
    """A few bytes declare gigabytes that they do not contain."""
    huge_snappy = b"\xff\xff\xff\xff\x07" + bytes(20)
    with pytest.raises(CorruptRecordError, match="claims to contain"):
        decompress(Compression.SNAPPY, huge_snappy)
    with pytest.raises(CorruptRecordError, match="a snappy block has"):
        decompress(
            Compression.SNAPPY, b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01\x7f\xff\xff\xff" + bytes(9)
        )
    frame = bytearray(zstandard.ZstdCompressor().compress(bytes(70_000)))
    frame[5:9] = (1 << 31).to_bytes(4, "little")
    with pytest.raises(MessageTooLargeError):
        decompress(Compression.ZSTD, frame)
    oversized_window = bytes.fromhex("28b52ffd00f8") + b"\x01\x00\x00"
    with pytest.raises(CorruptRecordError):
        decompress(Compression.ZSTD, oversized_window)


def test_there_is_a_limit_where_nothing_is_said() -> None:
    bomb = _streamed(lambda: zstandard.ZstdCompressor().compressobj())
    assert 256 * MIB > DEFAULT_MAX_DECOMPRESSED
    with pytest.raises(MessageTooLargeError):
        decompress(Compression.ZSTD, bomb)
