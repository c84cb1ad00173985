"""Encoders and decoders of values."""

from typing import Any

import pytest

from pyklient.serialization import encode_text


@pytest.mark.parametrize("value", [5, b"five", ["five"]])
def test_what_is_no_text_is_refused_by_its_type(value: Any) -> None:
    assert (encode_text("fünf"), encode_text(None)) == ("fünf".encode(), None)
    with pytest.raises(TypeError, match=f"encode_text takes a str or None, not {type(value).__name__}"):
        encode_text(value)
