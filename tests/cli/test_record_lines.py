"""Records as lines of JSON: ``produce`` reads the same bytes that ``consume`` has written."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyklient.cli.record_lines import as_json_line, from_json_line, header_of
from pyklient.kernel import Message

_BYTES = st.one_of(st.none(), st.binary(max_size=40), st.text(max_size=20).map(str.encode))


def _message(key: bytes | None, value: bytes | None, headers: Any = ()) -> Message:
    return Message("clicks", 3, 17, 1_700_000_000_000, 0, key, value, tuple(headers))


@given(key=_BYTES, value=_BYTES, headers=st.lists(st.tuples(st.text(max_size=5), _BYTES), max_size=3))
def test_a_record_survives_the_way_through_json(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    line = as_json_line(_message(key, value, headers))
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    record = from_json_line(line)
    assert (record.key, record.value, record.headers) == (key, value, headers)
    assert (record.partition, record.timestamp_ms) == (3, 1_700_000_000_000)


def test_text_is_shown_as_text_and_other_bytes_as_base64() -> None:
    shown = json.loads(as_json_line(_message("Zoë".encode(), b"\xff\x00")))
    assert shown["key"] == "Zoë"
    assert shown["value"] == {"base64": "/wA="}
    assert (shown["topic"], shown["partition"], shown["offset"]) == ("clicks", 3, 17)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        (b'{"value": "a"}', b"a"),
        (b'{"value": null}', None),
        (b"{}", None),
        (b'{"value": {"a": [1, true]}}', b'{"a":[1,true]}'),
        (b'{"value": 7}', b"7"),
        (b'{"value": {"base64": "AAE="}}', b"\x00\x01"),
    ],
)
def test_a_value_is_text_or_bytes_or_becomes_compact_json(line: bytes, value: bytes | None) -> None:
    assert from_json_line(line).value == value


def test_headers_may_be_an_object() -> None:
    assert from_json_line(b'{"headers": {"a": "1", "b": null}}').headers == [("a", b"1"), ("b", None)]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"not json", "Expecting value at character 1"),
        (b'{"value": NaN}', "NaN is not a number in JSON"),
        (b'{"value": 1e999}', "the number 1e999 is too large"),
        (b'{"value": "\\ud800"}', "one half of a surrogate pair"),
        (b'{"headers": {"\\ud800": null}}', "one half of a surrogate pair"),
        (b'{"value": %s}' % (b"9" * 5_000), "a number has too many digits"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"value": "', "Unterminated string starting at character 11"),
        (b"[1]", "a record must be an object"),
        (b'{"valeu": 1}', "unknown field 'valeu'"),
        (b'{"partition": "1"}', "partition must be a whole number"),
        (b'{"timestamp_ms": true}', "timestamp_ms must be a whole number"),
        (b'{"headers": [["a"]]}', "headers must be"),
        (b'{"headers": 3}', "headers must be"),
        (b'{"value": {"base64": "***"}}', "base64 cannot be decoded"),
        (b'{"value": {"base64": 3}}', "base64 cannot be decoded"),
        (b'"\xff"', "byte 2 is not UTF-8"),
    ],
)
def test_a_line_that_is_no_record_says_why(line: bytes, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        from_json_line(line)


def test_a_header_on_the_line_is_name_and_value() -> None:
    assert header_of("trace=1=2") == ("trace", b"1=2")
    assert header_of("trace=") == ("trace", b"")
    assert header_of("trace=\udcff") == ("trace", b"\xff")
    with pytest.raises(ValueError, match="'trace' is not NAME=VALUE"):
        header_of("trace")
    with pytest.raises(ValueError, match="is not UTF-8"):
        header_of("\udcff=1")
