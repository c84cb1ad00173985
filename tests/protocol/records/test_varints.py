"""Zigzag varints at their limits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyklient.errors import CorruptRecordError
from pyklient.protocol.records.varints import encode_signed, read_folded, unfold


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_what_is_written_is_read_back(value: int) -> None:
    written = encode_signed(value)
    folded, end = read_folded(b"\xff" + written + b"\xff", 1, 64)
    assert (unfold(folded), end) == (value, 1 + len(written))


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (63, "7e"),
        (-64, "7f"),
        (64, "8001"),
        (8191, "fe7f"),
        (8192, "808001"),
        ((1 << 31) - 1, "feffffff0f"),
        (-(1 << 31), "ffffffff0f"),
        (-(1 << 63), "ffffffffffffffffff01"),
    ],
)
def test_known_bytes(value: int, written: str) -> None:
    assert encode_signed(value).hex() == written


@pytest.mark.parametrize(
    ("written", "bits"),
    [
        ("8080808010", 32),
        ("ffffffff7f", 32),
        ("808080808000", 32),
        ("80808080808080808002", 64),
        ("ff" * 11, 64),
    ],
)
def test_more_bits_than_allowed_are_corrupt(written: str, bits: int) -> None:
    with pytest.raises(CorruptRecordError, match=f"does not fit into {bits} bits"):
        read_folded(bytes.fromhex(written), 0, bits)


@pytest.mark.parametrize("written", ["", "80", "ffffffff"])
def test_one_that_is_cut_off_is_corrupt(written: str) -> None:
    with pytest.raises(CorruptRecordError, match="ends in the middle"):
        read_folded(bytes.fromhex(written), 0)
