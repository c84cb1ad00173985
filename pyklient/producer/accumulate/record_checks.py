"""What a user gives to ``send``, checked and turned into bytes; each mistake gets a sentence of its own."""

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

from pyklient import argument_checks
from pyklient.errors import ConfigurationError
from pyklient.protocol.records.kernel import encode_record
from pyklient.protocol.records.layout import BATCH_SIZE, INT64_MAX, Headers, HeaderTuple

__all__ = ["RecordEncoder", "ProducerRecord"]


class ProducerRecord(NamedTuple):
    """A record as it will be stored. ``size`` are its bytes as the only one of a batch, header included."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: HeaderTuple
    size: int


class RecordEncoder:
    """Makes Records, with the user's encoders where there are any."""

    def __init__(
        self,
        key_encoder: Callable[[Any], bytes | None] | None,
        value_encoder: Callable[[Any], bytes | None] | None,
        clock_ms: Callable[[], int],
    ) -> None:
        self._key_encoder = key_encoder
        self._value_encoder = value_encoder
        self._clock_ms = clock_ms
        self._sound_topic = ""

    @property
    def plain(self) -> bool:
        """Whether bytes need nothing done to them."""
        return self._key_encoder is None and self._value_encoder is None

    def encode(self, topic: str, value: Any, key: Any, timestamp_ms: Any, headers: Any) -> ProducerRecord:
        """The record. Raises TypeError and ConfigurationError that name the argument, ConfigurationError for
        an encoder that returns no bytes, and what an encoder raises."""
        if not isinstance(topic, str) or not topic:
            raise TypeError(f"topic must be a string that is not empty, not {topic!r}")
        if topic != self._sound_topic:
            self._sound_topic = argument_checks.topic_name(topic)
        key_bytes = _encoded("key", key, self._key_encoder)
        value_bytes = _encoded("value", value, self._value_encoder)
        pairs = _checked_headers(headers) if headers else ()
        time_ms = self._clock_ms() if timestamp_ms is None else _checked_timestamp(timestamp_ms)
        size = BATCH_SIZE + len(encode_record(0, 0, key_bytes, value_bytes, pairs))
        return ProducerRecord(key_bytes, value_bytes, time_ms, pairs, size)


def _encoded(what: str, given: Any, encoder: Callable[[Any], bytes | None] | None) -> bytes | None:
    data = given if encoder is None else encoder(given)
    if data is None or data.__class__ is bytes:
        result: bytes | None = data
        return result
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    if encoder is not None:
        raise ConfigurationError(
            f"{what}_encoder returned {type(data).__name__} for a {type(given).__name__}; "
            "it must return bytes or None"
        )
    if isinstance(given, str):
        raise TypeError(
            f"{what} is a str, and records hold bytes: pass {what}.encode(), or make the producer with "
            f"{what}_encoder=str.encode"
        )
    raise TypeError(
        f"{what} must be bytes or None, not {type(given).__name__}; "
        f"{what}_encoder of the producer can turn it into bytes"
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
        raise ConfigurationError(f"timestamp_ms={number} is out of range; it counts milliseconds since 1970")
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
            f"a header is a pair (name, value), not {header!r}; headers is a list of them, "
            "and of send_many one such list for each value"
        )
    name, value = header
    if not isinstance(name, str):
        raise TypeError(f"the name of a header is a str, not {name!r}")
    if value is None or value.__class__ is bytes:
        return name, value
    if isinstance(value, bytes | bytearray | memoryview):
        return name, bytes(value)
    raise TypeError(f"the value of header {name!r} is bytes or None, not {type(value).__name__}")
