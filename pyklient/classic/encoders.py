"""The encoders of Kafka's classic producers."""

from typing import Any

from pyklient.errors import ConfigurationError

__all__ = ["DefaultEncoder", "StringEncoder"]


class DefaultEncoder:
    """Accepts bytes and returns them as they are, as ``kafka.serializer.DefaultEncoder`` does."""

    def encode(self, value: Any, /) -> bytes | None:
        """Return *value*, which is bytes or None. Raise TypeError for anything else."""
        if value is None or isinstance(value, bytes):
            return value
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        raise TypeError(
            f"DefaultEncoder takes bytes, not {type(value).__name__}; set serializer.class to "
            "kafka.serializer.StringEncoder to send text"
        )


class StringEncoder:
    """Encodes text, as ``kafka.serializer.StringEncoder`` does. *encoding* is the property
    ``serializer.encoding``."""

    def __init__(self, encoding: str = "UTF8") -> None:
        try:
            "".encode(encoding)
        except (LookupError, TypeError, ValueError):
            raise ConfigurationError(
                f"serializer.encoding={encoding!r} is not the name of an encoding of text, such as UTF8"
            ) from None
        self._encoding = encoding

    def encode(self, value: Any, /) -> bytes | None:
        """Return *value* as bytes; None stays None. Raise TypeError if *value* is not text."""
        if value is None:
            return None
        if not isinstance(value, str):
            raise TypeError(f"StringEncoder takes a str, not {type(value).__name__}")
        return value.encode(self._encoding)
