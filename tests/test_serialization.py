"""Encoders and decoders of values."""

import datetime
import json
import math
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyklient.serialization import _json_decoder, decode_json, encode_json, encode_text

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.integers(-(10**400), 10**400) | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
_TEXTS = [
    *("NaN", "[Infinity, -Infinity]", "1e400", "-0", "-0.0", "1E5", "0.1000000000000000055511151231257827"),
    *("18446744073709551616", "-9223372036854775809", "9" * 4_300, "9" * 5_000, "1" * 400 + ".5"),
    *('"\\ud800"', '"\\ud83d\\ude00"', '"a\x01b"', '"\x7f"', '"\\u0000"', '{"a": 1, "b": 2, "a": 3}'),
    *("", " 1 ", "\x0b1", "[1,]", "01", "nul", '{"a": 1}x', "'a'", "[" * 500 + "]" * 500),
]
_DOCUMENTS = [
    *(text.encode() for text in _TEXTS),
    *('{"ä": [1]}'.encode(codec) for codec in ("utf-8-sig", "utf-16", "utf-16-le", "utf-32-be", "latin-1")),
    *(b'"\xed\xa0\x80"', b"1\x00", b"\x001", b'"\x00"'),
]


@pytest.mark.parametrize("value", [5, b"five", ["five"]])
def test_what_is_no_text_is_refused_by_its_type(value: Any) -> None:
    assert (encode_text("fünf"), encode_text(None)) == ("fünf".encode(), None)
    with pytest.raises(TypeError, match=f"encode_text takes a str or None, not {type(value).__name__}"):
        encode_text(value)


def _outcome(decode: Any, data: bytes) -> str:
    """Return what *decode* makes of *data*, with the types of numbers: the value or the error."""
    try:
        return repr(decode(data))
    except ValueError as error:
        return f"{type(error).__name__}: {error}"


@given(_VALUES)
def test_a_decoded_value_is_the_one_of_the_standard_library(value: Any) -> None:
    for is_ascii in (True, False):
        data = json.dumps(value, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
        assert _outcome(decode_json, data) == _outcome(json.loads, data)


@pytest.mark.parametrize("data", _DOCUMENTS, ids=lambda data: repr(data[:20]))
def test_odd_and_wrong_json_is_decoded_as_by_the_standard_library(data: bytes) -> None:
    assert _outcome(decode_json, data) == _outcome(json.loads, data)


def test_msgspec_decodes_json_if_it_is_installed() -> None:
    assert decode_json(None) is None
    assert _json_decoder() is not json.loads
    without = "import sys; sys.modules['msgspec'] = None"
    check = "from pyklient.serialization import decode_json; assert decode_json(b'[1, NaN]')[0] == 1"
    subprocess.run([sys.executable, "-c", f"{without}\n{check}"], check=True, timeout=60)


@pytest.mark.parametrize(
    ("value", "data"),
    [
        ([math.nan, math.inf, 1e16, 1.5e-5, 2**70], b"[NaN,Infinity,1e+16,1.5e-05,1180591620717411303424]"),
        ({1: "ä", None: True, 1.5: "\x00/"}, '{"1":"ä","null":true,"1.5":"\\u0000/"}'.encode()),
    ],
)
def test_encoded_json_has_the_bytes_of_the_standard_library(value: Any, data: bytes) -> None:
    assert encode_json(value) == data == json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    for refused in (datetime.date(2026, 1, 1), b"bytes", {(1, 2): 3}):
        with pytest.raises(TypeError):
            encode_json(refused)
