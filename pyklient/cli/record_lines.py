"""Converts records to lines of JSON for ``consume --json``, and back for ``produce --json``.

Bytes in UTF-8 appear as a string, other bytes as ``{"base64": "…"}``, and a missing value as null.
"""

import base64
import binascii
import json
import math
import os
from typing import Any, NamedTuple

from pyklient.cli.parameter_checks import text
from pyklient.kernel import Message

__all__ = ["NewRecord", "NotJSONError", "as_json_line", "from_json_line", "header_of"]

_FIELDS = frozenset(
    {"topic", "partition", "offset", "timestamp_ms", "timestamp_type", "key", "value", "headers"}
)


class NotJSONError(ValueError):
    """A line of the input is not JSON. The message gives the reason."""


class NewRecord(NamedTuple):
    """A record to send, made from one line of the input."""

    value: bytes | None
    key: bytes | None = None
    headers: list[tuple[str, bytes | None]] | None = None
    partition: int | None = None
    timestamp_ms: int | None = None


def as_json_line(message: Message) -> bytes:
    """Return *message* as a line of JSON that ends with a newline."""
    fields = {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp_ms": message.timestamp_ms,
        "key": _shown(message.key),
        "value": _shown(message.value),
        "headers": [[name, _shown(value)] for name, value in message.headers],
    }
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def from_json_line(line: bytes) -> NewRecord:
    """Return the record that a line of JSON describes. Raises NotJSONError if the line is not JSON, and
    ValueError if it does not describe a record. Both give the reason.

    The fields ``topic``, ``offset`` and ``timestamp_type`` are accepted but not used, so that the output of
    ``consume --json`` can be sent again. A key or a value that is an object, a list, a number or a bool
    becomes compact JSON.
    """
    fields = _loaded(line)
    if not isinstance(fields, dict):
        raise ValueError('a record must be an object such as {"key": "a", "value": "b"}')
    unknown = sorted(set(fields) - _FIELDS)
    if unknown:
        raise ValueError(f"unknown field {unknown[0]!r}; the fields are {', '.join(sorted(_FIELDS))}")
    for name in ("partition", "timestamp_ms"):
        value = fields.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise ValueError(f"{name} must be a whole number, not {value!r}")
    return NewRecord(
        value=_bytes(fields.get("value")),
        key=_bytes(fields.get("key")),
        headers=_headers(fields.get("headers")),
        partition=fields.get("partition"),
        timestamp_ms=fields.get("timestamp_ms"),
    )


def header_of(given: str) -> tuple[str, bytes]:
    """Return the name and the value of a header that is given as ``name=value`` on the command line.

    The value has the same bytes as on the command line. Raises ValueError if there is no ``=``, or if the
    name is not UTF-8.
    """
    name, equals, value = given.partition("=")
    if not equals:
        raise ValueError(f"{given!a} is not NAME=VALUE; to send a header without a value, use --json")
    return text(name), os.fsencode(value)


def _loaded(line: bytes) -> Any:
    try:
        return json.loads(line, parse_constant=_reject_constant, parse_float=_finite)
    except json.JSONDecodeError as error:
        # Some messages of Python end with "at".
        problem = error.msg.removesuffix(" at")
        raise NotJSONError(f"{problem} at character {error.pos + 1}") from None
    except UnicodeDecodeError as error:
        raise NotJSONError(f"byte {error.start + 1} is not UTF-8") from None
    except RecursionError:
        raise NotJSONError("the JSON is nested too deeply") from None
    except NotJSONError:
        raise
    except ValueError:
        # Python limits the digits of a number, because long ones take very long to parse.
        raise NotJSONError("a number has too many digits") from None


def _reject_constant(constant: str) -> Any:
    raise NotJSONError(f"{constant} is not a number in JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise NotJSONError(f"the number {text} is too large")
    return number


def _headers(given: Any) -> list[tuple[str, bytes | None]] | None:
    pairs = list(given.items()) if isinstance(given, dict) else given
    if pairs is None:
        return None
    if not isinstance(pairs, list) or not all(
        isinstance(pair, list | tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in pairs
    ):
        raise ValueError('headers must be [["name", "value"], …] or {"name": "value"}')
    return [(_utf8(name).decode(), _bytes(value)) for name, value in pairs]


def _shown(data: Any) -> Any:
    if not isinstance(data, bytes):
        return data
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _bytes(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return _utf8(value)
    if isinstance(value, dict) and value.keys() == {"base64"}:
        try:
            return base64.b64decode(value["base64"], validate=True)
        except (TypeError, binascii.Error) as error:
            raise ValueError(f"a value given in base64 cannot be decoded: {error}") from None
    return _utf8(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{text[error.start]!a} is one half of a surrogate pair, not a complete character"
        ) from None
