"""Checks the arguments of ``send`` and applies the user's encoders. The error for a wrong argument names the
argument.

This module gets only the records that the kernel cannot append by itself, for instance because the producer
has encoders.
"""

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

from pyklient import argument_checks
from pyklient.errors import ConfigurationError
from pyklient.kernel import UserFunctions, encode_record, encoded_bytes
from pyklient.protocol.records.layout import BATCH_SIZE, INT64_MAX, Headers, HeaderTuple

__all__ = ["CheckedRecord", "RecordChecker"]

_tuple_new = tuple.__new__


class CheckedRecord(NamedTuple):
    """A record as it will be stored. ``size`` is the size in bytes of a batch that contains only this
    record."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: HeaderTuple
    size: int


class RecordChecker:
    """Checks the arguments of ``send``, and turns them into a CheckedRecord. *functions* has the encoders.
    *clock_ns* returns nanoseconds since 1970."""

    def __init__(self, functions: UserFunctions, clock_ns: Callable[[], int]) -> None:
        self._key_encoder = functions.key_encoder
        self._value_encoder = functions.value_encoder
        self._encodes = functions.key_encoder is not None or functions.value_encoder is not None
        self._clock_ns = clock_ns
        self._checked_topic = ""

    def check(
        self, topic: str, value: Any, key: Any, timestamp_ms: Any, headers: Any, *, encoded: bool
    ) -> CheckedRecord:
        """Return the record that the arguments of ``send`` describe. If *encoded* is true, the encoders have
        already been called for *key* and *value*.

        Raises TypeError or ConfigurationError for a wrong argument, ConfigurationError if an encoder does not
        return bytes, and any exception that an encoder raises.
        """
        if not isinstance(topic, str) or not topic:
            raise TypeError(f"topic must be a non-empty string, not {topic!r}")
        if topic != self._checked_topic:
            self._checked_topic = argument_checks.topic_name(topic)
        key_bytes: bytes | None
        value_bytes: bytes | None
        if value.__class__ is bytes and (key is None or key.__class__ is bytes) and not self._encodes:
            key_bytes, value_bytes = key, value  # the usual case, without function calls
        else:
            key_bytes = _bytes("key", key, None if encoded else self._key_encoder)
            value_bytes = _bytes("value", value, None if encoded else self._value_encoder)
        pairs = _checked_headers(headers) if headers else ()
        time_ms = self._clock_ns() // 1_000_000 if timestamp_ms is None else _checked_timestamp(timestamp_ms)
        size = BATCH_SIZE + len(encode_record(0, 0, key_bytes, value_bytes, pairs))
        # Calling the class would run a Python function, for each batch.
        return _tuple_new(CheckedRecord, (key_bytes, value_bytes, time_ms, pairs, size))


def _bytes(name: str, given: Any, encoder: Callable[[Any], Any] | None) -> bytes | None:
    """Return *given*, a key or value, as bytes or None. If *encoder* is given, it makes the bytes. *name* is
    "key" or "value", for error messages."""
    if encoder is not None:
        return encoded_bytes(name, given, encoder(given))
    if given is None or given.__class__ is bytes:
        result: bytes | None = given
        return result
    if isinstance(given, bytes | bytearray | memoryview):
        return bytes(given)
    if isinstance(given, str):
        raise TypeError(
            f"{name} is a str, and records hold bytes: pass {name}.encode(), or create the producer with "
            f"{name}_encoder=str.encode"
        )
    raise TypeError(
        f"{name} must be bytes or None, not {type(given).__name__}; a {name}_encoder of the producer could "
        "convert it"
    )


def _checked_timestamp(timestamp_ms: Any) -> int:
    try:
        if isinstance(timestamp_ms, bool):
            raise TypeError
        number = operator.index(timestamp_ms)
    except TypeError:
        raise TypeError(
            f"timestamp_ms must be a whole number of milliseconds since 1970, not {timestamp_ms!r}"
        ) from None
    if not 0 <= number <= INT64_MAX:
        raise ConfigurationError(
            f"timestamp_ms={number} is out of range: it counts milliseconds since 1970, from 0 to {INT64_MAX}"
        )
    return number


def _checked_headers(headers: Any) -> HeaderTuple:
    try:
        given: Headers = list(headers)
    except TypeError:
        raise TypeError(f"headers must be a list of (name, value) pairs, not {headers!r}") from None
    return tuple([_checked_header(header) for header in given])


def _checked_header(header: Any) -> tuple[str, bytes | None]:
    if isinstance(header, str | bytes) or not hasattr(header, "__len__") or len(header) != 2:
        raise TypeError(
            f"a header must be a pair (name, value), not {header!r}; headers is a list of such pairs, and "
            "send_many takes one such list for each value"
        )
    name, value = header
    if not isinstance(name, str):
        raise TypeError(f"the name of a header must be a str, not {name!r}")
    if value is None or value.__class__ is bytes:
        return name, value
    if isinstance(value, bytes | bytearray | memoryview):
        return name, bytes(value)
    raise TypeError(f"the value of header {name!r} must be bytes or None, not {type(value).__name__}")
