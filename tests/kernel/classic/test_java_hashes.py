"""The hash codes of Java for text and for bytes, in both kernels."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernel.kernels import COMPILED, PYTHON, outcome_of

INT_MIN = -(2**31)


# The numbers are those of String.hashCode.
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("key", 106079),
        ("hello", 99162322),
        ("user-1", -836031825),
        ("polygenelubricants", INT_MIN),
        ("é", 0xE9),
        ("\ud83d", 0xD83D),
        ("\U0001f600", 0xD83D * 31 + 0xDE00),
    ],
)
def test_the_hash_of_text_is_that_of_a_java_string(kernel: Any, text: str, expected: int) -> None:
    assert kernel.string_hash(text) == kernel.string_hash(type("Text", (str,), {})(text)) == expected


# The numbers are those of Arrays.hashCode.
@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"key", 135870), (b"hello", 127791473), (b"user-1", 51471856), (b"", 1), (b"\xff", 30)],
)
def test_the_hash_of_bytes_is_that_of_a_java_array(kernel: Any, data: bytes, expected: int) -> None:
    assert kernel.array_hash(data) == kernel.array_hash(bytearray(data)) == expected
    assert kernel.array_hash(memoryview(bytes(2 * len(data)))[::2]) == kernel.array_hash(bytes(len(data)))


@settings(max_examples=200)
@given(text=st.text(st.characters(exclude_categories=())), data=st.binary())
def test_both_kernels_hash_alike(text: str, data: bytes) -> None:
    assert COMPILED.string_hash(text) == PYTHON.string_hash(text)
    assert COMPILED.array_hash(data) == PYTHON.array_hash(data)


@pytest.mark.parametrize("wrong", [None, 5.0, b"a"])
def test_what_is_no_text_or_no_bytes_is_an_error(wrong: Any) -> None:
    assert outcome_of(COMPILED.string_hash, wrong) == outcome_of(PYTHON.string_hash, wrong)
    assert outcome_of(PYTHON.string_hash, wrong)[0] is TypeError
    if not isinstance(wrong, bytes):
        assert outcome_of(COMPILED.array_hash, wrong) == outcome_of(PYTHON.array_hash, wrong)
        assert outcome_of(PYTHON.array_hash, wrong)[0] is TypeError
