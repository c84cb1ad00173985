"""The elementary types: known bytes, and bytes that raise errors."""

import struct
from collections.abc import Callable
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyklient.errors import ProtocolError
from pyklient.protocol.primitives import (
    Buffer,
    Reader,
    Writer,
    encode_unsigned_varint,
    total_size,
)

_UNSIGNED = [
    (0, "00"),
    (1, "01"),
    (127, "7f"),
    (128, "8001"),
    (300, "ac02"),
    (16_383, "ff7f"),
    (16_384, "808001"),
    (0xFFFFFFFF, "ffffffff0f"),
]


@pytest.mark.parametrize(("value", "expected"), _UNSIGNED)
def test_unsigned_varints_are_groups_of_seven_bits_lowest_first(value: int, expected: str) -> None:
    encoded = encode_unsigned_varint(value)
    assert encoded.hex() == expected
    assert Reader(encoded).unsigned_varint() == value


@settings(deadline=None)
@given(st.integers(0, (1 << 32) - 1))
def test_any_number_of_32_bits_survives_a_varint(value: int) -> None:
    assert Reader(encode_unsigned_varint(value)).unsigned_varint() == value


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("", "cut off"),
        ("80", "cut off"),
        ("ffffffff10", "needs more than 32 bits"),
        ("ffffffff7f", "needs more than 32 bits"),
        ("8080808080808000", "has more than five bytes"),
        ("ff" * 1000, "has more than five bytes"),
    ],
)
def test_unsigned_varints_end_within_32_bits(data: str, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        Reader(bytes.fromhex(data)).unsigned_varint()


@pytest.mark.parametrize(
    ("read", "form", "value"), [(Reader.int16, "h", -32_768), (Reader.int32, "i", -(1 << 31))]
)
def test_numbers_are_big_endian_and_refused_when_cut_off(
    read: Callable[[Reader], int], form: str, value: int
) -> None:
    data = struct.pack(">" + form, value)
    reader = Reader(data)
    assert read(reader) == value
    assert reader.remaining == 0
    for length in range(len(data)):
        with pytest.raises(ProtocolError):
            read(Reader(data[:length]))


@pytest.mark.parametrize("buffer", [b"\x00\x07", bytearray(b"\x00\x07"), memoryview(b"\x00\x07").cast("H")])
def test_a_reader_takes_any_buffer_as_bytes(buffer: Buffer) -> None:
    assert Reader(buffer).int16() == 7


@pytest.mark.parametrize(
    ("read", "data"), [(Reader.length16, "fffe"), (Reader.length16, "8000"), (Reader.length32, "fffffffe")]
)
def test_a_length_below_that_of_null_is_refused(read: Callable[[Reader], int], data: str) -> None:
    with pytest.raises(ProtocolError, match="is negative: -"):
        read(Reader(bytes.fromhex(data)))


@pytest.mark.parametrize(
    ("read", "data"),
    [(Reader.length16, "ffff"), (Reader.length32, "ffffffff"), (Reader.compact_length, "00")],
)
def test_null_has_a_length_of_its_own(read: Callable[[Reader], int], data: str) -> None:
    assert read(Reader(bytes.fromhex(data))) == -1


@pytest.mark.parametrize("length", [-1, 4, 0x7FFFFFFF])
def test_no_more_bytes_than_remain_can_be_taken(length: int) -> None:
    reader = Reader(b"abc")
    with pytest.raises(ProtocolError, match="3 bytes remain"):
        reader.slice(length)
    assert reader.remaining == 3


def test_a_slice_is_a_view_of_the_frame() -> None:
    frame = bytearray(b"abcd")
    view = Reader(frame).slice(2)
    frame[0] = ord("z")
    assert bytes(view) == b"zb"


def test_a_string_that_is_not_utf8_is_refused() -> None:
    reader = Reader(b"a\xff\xfe")
    reader.slice(1)
    with pytest.raises(ProtocolError, match="at byte 1 is not UTF-8"):
        reader.string(2)


@pytest.mark.parametrize(("length", "least"), [(-1, 1), (5, 1), (3, 2), (0x7FFFFFFF, 1), (0x7FFFFFFF, 100)])
def test_an_array_needs_room_for_all_its_elements(length: int, least: int) -> None:
    with pytest.raises(ProtocolError, match="4 bytes remain"):
        Reader(b"abcd").count(length, least)


def test_an_array_of_numbers_is_read_at_once() -> None:
    assert Reader(struct.pack(">3i", 1, -2, 3)).numbers(3, "i") == [1, -2, 3]
    with pytest.raises(ProtocolError, match="12 bytes remain"):
        Reader(bytes(12)).numbers(4, "i")
    with pytest.raises(ProtocolError, match="-1 numbers"):
        Reader(bytes(12)).numbers(-1, "i")


def test_unknown_tagged_fields_are_stepped_over() -> None:
    reader = Reader(bytes.fromhex("02 00 01 aa 81 01 02 bb cc") + b"rest")
    reader.skip_tagged_fields()
    assert bytes(reader.slice(4)) == b"rest"


@pytest.mark.parametrize("data", ["", "01", "0100", "010001", "ffffffff0f0000", "0100ffffffff0f"])
def test_tagged_fields_that_do_not_fit_are_refused(data: str) -> None:
    with pytest.raises(ProtocolError):
        Reader(bytes.fromhex(data)).skip_tagged_fields()


def test_buffers_are_measured_in_bytes_whatever_their_items_are() -> None:
    assert total_size([]) == 0
    assert (
        total_size([b"ab", bytearray(b"c"), memoryview(bytes(8)).cast("Q"), memoryview(b"abcd")[::2]]) == 13
    )
    with pytest.raises(TypeError, match="bytes-like"):
        total_size(cast(list[Buffer], ["text"]))


def test_nothing_written_is_one_empty_part() -> None:
    assert Writer().finish() == [b""]


def test_a_writer_goes_on_behind_what_it_is_given() -> None:
    writer = Writer(b"start")
    writer.buf += b", end"
    assert writer.finish() == [b"start, end"]
