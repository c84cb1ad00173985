"""Malformed record bytes raise pyklient's own errors, in limited time and memory.

Checksums are corrected or not compared, so that the parsers get the bytes.
"""

import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import thread_time
from typing import Any, Final

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from pyklient.errors import CorruptRecordError, KafkaError, MessageTooLargeError, UnsupportedCodecError
from pyklient.kernel import control_type, convert, encode_batch, read_records
from pyklient.protocol.records import (
    AbortedTransactions,
    Compression,
    NewRecord,
    assign_offsets,
    batch_header,
    iter_batches,
)
from tests.kernel.samples import ALLOWED, LEGACY_SAMPLES, SAMPLES

EXPECTED: Final = (CorruptRecordError, UnsupportedCodecError, MessageTooLargeError)
LIMIT: Final = 4 << 20


def resealed(data: bytes | bytearray) -> bytes:
    """Return the bytes of one batch or entry with the right checksum."""
    sealed = bytearray(data)
    if len(sealed) > 21 and sealed[16] == 2:
        sealed[17:21] = crc32c(sealed[21:]).to_bytes(4, "big")
    elif len(sealed) > 16:
        sealed[12:16] = zlib.crc32(sealed[16:]).to_bytes(4, "big")
    return bytes(sealed)


def consume(kernel: Any, data: bytes, *, check_crcs: bool = True) -> None:
    """Read everything in *data* in every possible way. Only expected errors may be raised."""
    for use in (partial(_decode, kernel), _walk, _convert, _assign):
        with suppress(*EXPECTED):
            use(data, check_crcs)


def _decode(kernel: Any, data: bytes, check_crcs: bool) -> None:
    position = start = 0
    aborted = AbortedTransactions([(-1, 0), (5, 3)])
    while True:
        chunk = kernel.decode(
            data,
            "t",
            0,
            start,
            position=position,
            check_crcs=check_crcs,
            aborted=aborted,
            max_decompressed=LIMIT,
        )
        offsets = [message.offset for message in chunk]
        assert offsets == sorted(set(offsets))
        assert all(start <= offset < chunk.next_offset <= 1 << 63 for offset in offsets)
        if not chunk.nbytes and not offsets:
            return
        position, start = position + chunk.nbytes, chunk.next_offset


def _walk(data: bytes, check_crcs: bool) -> None:
    for batch in iter_batches(data):
        repr(batch)
        with suppress(*EXPECTED):
            batch.verify()
        with suppress(*EXPECTED):
            assert all(len(record) == 6 for record in read_records(batch, LIMIT))
        with suppress(*EXPECTED):
            _ = (batch.base_offset, batch.count, batch.compression)
        if batch.is_control:
            with suppress(*EXPECTED):
                control_type(batch.buffer)


def _convert(data: bytes, check_crcs: bool) -> None:
    for magic in (0, 1, 2):
        with suppress(*EXPECTED):
            convert(data, magic, max_decompressed=LIMIT)


def _assign(data: bytes, check_crcs: bool) -> None:
    if all(batch.magic == 2 for batch in iter_batches(data)):
        assign_offsets(bytearray(data), 100, 1, 1000)


WRITTEN: Final = [
    encode_batch(SAMPLES if magic == 2 else LEGACY_SAMPLES, magic=magic, compression=codec, base_offset=3)
    for magic, codec in ALLOWED
] + [
    encode_batch([NewRecord(1, bytes(4), bytes(6))], producer_id=5, transactional=True, control=True),
    encode_batch([], base_offset=8, producer_id=5),
]


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_mutated_batches(kernel: Any, data: st.DataObject) -> None:
    mutated = bytearray(data.draw(st.sampled_from(WRITTEN)))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, min(len(mutated), 150) - 1) | st.integers(0, len(mutated) - 1))
        mutated[at] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]) | st.integers(0, 255))
    consume(kernel, bytes(mutated), check_crcs=False)
    consume(kernel, resealed(mutated))
    relabelled = bytearray(mutated)
    relabelled[8:12] = (len(mutated) - 12).to_bytes(4, "big")
    consume(kernel, resealed(relabelled))


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=300), st.integers(0, 5), st.integers(-3, 40), st.sampled_from(list(Compression)))
def test_batches_with_records_made_of_noise(
    kernel: Any, noise: bytes, count: int, delta: int, codec: Compression
) -> None:
    header = batch_header(
        noise, count=count, base_timestamp=5, max_timestamp=5, last_offset_delta=delta, compression=codec
    )
    consume(kernel, header + noise)


@settings(deadline=None, max_examples=300)
@given(st.binary(max_size=200))
def test_noise(kernel: Any, noise: bytes) -> None:
    consume(kernel, noise, check_crcs=False)
    for magic in (0, 1, 2):
        framed = bytes(8) + (len(noise) + 5).to_bytes(4, "big") + bytes(4) + bytes((magic,)) + noise
        consume(kernel, resealed(framed))


def single(magic: int, codec: Compression) -> bytes:
    """Return one batch, or one entry, because an uncompressed set of an old format consists of several."""
    records = SAMPLES if magic == 2 else LEGACY_SAMPLES if codec else LEGACY_SAMPLES[4:5]
    return encode_batch(records, magic=magic, compression=codec, base_offset=3)


@pytest.mark.parametrize("written", [single(*pair) for pair in ALLOWED], ids=map(str, ALLOWED))
def test_batches_cut_off_at_every_byte_hold_nothing(kernel: Any, written: bytes) -> None:
    for cut in range(len(written)):
        chunk = kernel.decode(written[:cut], "t", 0, 0)
        assert (chunk.nbytes, chunk.remaining) == (0, 0)
        assert list(iter_batches(written[:cut])) == []


@pytest.mark.parametrize("written", [single(*pair) for pair in ALLOWED], ids=map(str, ALLOWED))
def test_batches_cut_off_at_every_byte_and_sealed_anew_are_corrupt(kernel: Any, written: bytes) -> None:
    for cut in range(17, len(written)):
        data = bytearray(written[:cut])
        data[8:12] = (cut - 12).to_bytes(4, "big")
        with pytest.raises(EXPECTED):
            kernel.decode(resealed(data), "t", 0, 0)


def test_records_cut_off_at_every_byte_are_corrupt(kernel: Any) -> None:
    written = encode_batch(SAMPLES)[61:]
    for cut in range(len(written)):
        with pytest.raises(CorruptRecordError):
            kernel.parse_records(written[:cut], len(SAMPLES), 0, 10, 0)


@pytest.mark.parametrize("sample", SAMPLES, ids=range(len(SAMPLES)))
def test_a_record_cut_off_anywhere_says_so(kernel: Any, sample: NewRecord) -> None:
    written = encode_batch([sample])[61:]
    for cut in range(max(7, len(written) - 500), len(written)):
        with pytest.raises(CorruptRecordError, match="a batch ends in the middle of a record"):
            kernel.parse_records(written[:cut], 1, 0, 0, 0)


_33_BITS: Final = b"\x80\x80\x80\x80\x20"


@pytest.mark.parametrize("field", ["length", "offset", "key", "value", "headers", "name", "header"])
def test_a_number_of_33_bits_says_so(kernel: Any, field: str) -> None:
    parts = {
        "attributes and time": bytes(2),
        "offset": b"\x00",
        "key": b"\x01",
        "value": b"\x01",
        "headers": b"\x02",
        "name": b"\x00",
        "header": b"\x00",
    }
    body = b"".join((parts | {field: _33_BITS}).values()) if field in parts else bytes(8)
    length = _33_BITS if field == "length" else bytes((2 * len(body),))
    with pytest.raises(CorruptRecordError, match="a number in a record does not fit into 32 bits"):
        kernel.parse_records(length + body, 1, 0, 0, 0)


@pytest.mark.parametrize("count", [0, 1, 5, 7, 1 << 20, (1 << 31) - 1, -1, -(1 << 31)])
def test_a_count_that_lies_is_corrupt(kernel: Any, count: int) -> None:
    data = bytearray(encode_batch(SAMPLES))
    assert len(SAMPLES) not in (0, 1, 5, 7)
    data[57:61] = count.to_bytes(4, "big", signed=True)
    if count == 0:
        assert kernel.decode(resealed(data), "t", 0, 0).next_offset == len(SAMPLES)
        return
    with pytest.raises(CorruptRecordError):
        kernel.decode(resealed(data), "t", 0, 0)
    [batch] = iter_batches(data)
    with pytest.raises(CorruptRecordError):
        read_records(batch)


@pytest.mark.parametrize(
    ("base_offset", "last_delta"),
    [(-1, 5), (-(1 << 63), 5), ((1 << 63) - 1, 0), ((1 << 63) - 3, 5), (0, -1), (0, -(1 << 31)), (0, 4)],
)
def test_offsets_that_cannot_be_are_corrupt(kernel: Any, base_offset: int, last_delta: int) -> None:
    data = bytearray(encode_batch(SAMPLES))
    data[:8] = base_offset.to_bytes(8, "big", signed=True)
    data[23:27] = last_delta.to_bytes(4, "big", signed=True)
    with pytest.raises(CorruptRecordError):
        kernel.decode(resealed(data), "t", 0, 0)


@pytest.mark.parametrize("deltas", [[0, 0], [1, 0], [0, 2]])
def test_offset_deltas_must_rise_within_the_batch(kernel: Any, deltas: list[int]) -> None:
    data = bytearray(encode_batch([NewRecord(1, None, b"x")] * 2, offset_deltas=deltas))
    data[23:27] = (1).to_bytes(4, "big")
    with pytest.raises(CorruptRecordError, match=r"offset deltas of a batch do not increase, or exceed 1"):
        kernel.decode(resealed(data), "t", 0, 0)


FIELDS: Final = ("length", "timestamp", "offset", "key", "value", "headers", "name", "header value")
VARINTS: Final = {
    "-1": b"\x01",
    "-2": b"\x03",
    "2³¹-1": b"\xfe\xff\xff\xff\x0f",
    "-2³¹": b"\xff\xff\xff\xff\x0f",
    "2³¹": b"\x80\x80\x80\x80\x10",
    "five bytes too large": b"\xff\xff\xff\xff\x7f",
    "2⁶³-1": b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    "ten bytes too large": b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
    "endless": b"\xff" * 5000,
    "the right one with its sign turned": b"",
}


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("varint", VARINTS)
def test_a_number_that_lies_is_corrupt_wherever_it_stands(kernel: Any, field: str, varint: str) -> None:
    parts = {
        "length": b"\x18",
        "attributes": b"\x00",
        "timestamp": b"\x02",
        "offset": b"\x00",
        "key": b"\x02",
        "key data": b"k",
        "value": b"\x02",
        "value data": b"v",
        "headers": b"\x02",
        "name": b"\x02",
        "name data": b"n",
        "header value": b"\x02",
        "header data": b"h",
    }
    assert kernel.parse_records(b"".join(parts.values()), 1, 0, 0, 0).headers == {0: (("n", b"h"),)}
    parts[field] = VARINTS[varint] or bytes((parts[field][0] | 1,))
    body = b"".join(list(parts.values())[1:])
    if field != "length":
        size = len(body)
        parts["length"] = bytes((size << 1,)) if size < 64 else bytes((size << 1 & 0x7F | 0x80, size >> 6))
    harmless = field == "timestamp" and varint not in ("ten bytes too large", "endless")
    if harmless:
        assert len(kernel.parse_records(b"".join(parts.values()), 1, 0, 0, 0).offsets) == 1
        return
    with pytest.raises(CorruptRecordError):
        kernel.parse_records(b"".join(parts.values()), 1, 0, 0, 0)


@pytest.mark.parametrize(
    ("base", "delta"),
    [
        ((1 << 63) - 1, 1),
        (-(1 << 63), -1),
        (1 << 62, 1 << 62),
        (5, (1 << 63) - 1),
        (-5, -(1 << 63)),
    ],
)
def test_a_timestamp_beyond_64_bits_is_corrupt(kernel: Any, base: int, delta: int) -> None:
    payload = encode_batch([NewRecord(0, None, b"x"), NewRecord(delta, None, b"x")])[61:]
    with pytest.raises(CorruptRecordError, match="the timestamp of a record does not fit into 64 bits"):
        kernel.parse_records(payload, 2, 0, 1, base)


def test_a_key_of_negative_length_does_not_lead_backwards(kernel: Any) -> None:
    """A parser that moves back by the negative length would read the same bytes again, and might even end at
    the right byte."""
    for negative in range(3, 40, 2):
        record = bytes((0, 0, 0, negative)) + b"\x01\x00" * 8
        with pytest.raises(CorruptRecordError, match="negative length"):
            kernel.parse_records(bytes((len(record) << 1,)) + record, 1, 0, 0, 0)


def many_headers() -> bytes:
    return encode_batch([NewRecord(1, None, None, [("", None)] * 100_000)])


def many_empty_batches() -> bytes:
    return encode_batch([], producer_id=1) * 20_000


def many_tiny_snappy_blocks() -> bytes:
    payload = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01" + b"\x00\x00\x00\x01\x00" * 60_000
    return (
        batch_header(payload, count=1, base_timestamp=1, max_timestamp=1, compression=Compression.SNAPPY)
        + payload
    )


def many_tiny_zstd_frames() -> bytes:
    payload = bytes.fromhex("28b52ffd2000010000") * 50_000
    return (
        batch_header(payload, count=1, base_timestamp=1, max_timestamp=1, compression=Compression.ZSTD)
        + payload
    )


def endless_varints() -> bytes:
    payload = b"\xff" * 1_000_000
    return batch_header(payload, count=100_000, base_timestamp=1, max_timestamp=1) + payload


def counted_high() -> bytes:
    payload = bytes(1_000_000)
    return batch_header(payload, count=140_000, base_timestamp=1, max_timestamp=1) + payload


@pytest.mark.parametrize(
    "make",
    [
        many_headers,
        many_empty_batches,
        many_tiny_snappy_blocks,
        many_tiny_zstd_frames,
        endless_varints,
        counted_high,
    ],
)
def test_a_megabyte_made_to_be_slow_is_not(kernel: Any, make: Callable[[], bytes]) -> None:
    data = make()
    arguments: Any = {"max_decompressed": LIMIT}
    started = thread_time()  # not what other processes take
    with suppress(KafkaError):
        kernel.decode(data, "t", 0, 0, **arguments)
    assert thread_time() - started < 5
    tracemalloc.start()  # only now, because it makes the code many times slower
    try:
        with suppress(KafkaError):
            kernel.decode(data, "t", 0, 0, **arguments)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
