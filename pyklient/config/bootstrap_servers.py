"""The ``bootstrap_servers`` option: its default, and a parser that turns it into (host, port) pairs."""

from collections.abc import Mapping, Sequence, Set
from typing import Any, Final

from pyklient.errors import ConfigurationError

__all__ = ["DEFAULT_SERVERS", "is_default", "parse_bootstrap_servers"]


class _Unsaid(str):
    """The class of ``DEFAULT_SERVERS``. It distinguishes the default from an equal str that the caller
    passes."""


DEFAULT_SERVERS: Final[str] = _Unsaid("localhost:9092")
"""The default of ``bootstrap_servers``, which is the first argument of every client."""


def is_default(servers: str | Sequence[str]) -> bool:
    """Return True if *servers* is the default object, which means that the caller has not set the option."""
    return isinstance(servers, _Unsaid)


def parse_bootstrap_servers(servers: str | Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Parse *servers*, such as ``"a:9092,b"`` or ``["a:9092", "[::1]:9092"]``, into pairs of host and port.

    A server without a port gets port 9092. Raises ConfigurationError if *servers* has another form.
    """
    given: Any = servers
    items = [given] if isinstance(given, str) else given
    if isinstance(given, Mapping):
        names = ", ".join(map(repr, given))  # no values, because one may be a password
        raise ConfigurationError(
            f"bootstrap_servers={{{names}: …}} is a dict, but options are keyword arguments; pass "
            "the dict with two asterisks, as in Producer(**options)"
        )
    listed = isinstance(items, Sequence | Set) and not isinstance(items, bytes | bytearray | memoryview)
    if not listed or not all(isinstance(item, str) for item in items):
        raise ConfigurationError(
            f"bootstrap_servers={given!r} must be a str or a list of str; pass "
            "'localhost:9092', 'one:9092,two:9092' or ['one:9092', 'two:9092']"
        )
    texts = [text.strip() for item in items for text in item.split(",")]
    found = tuple(_address(text) for text in texts if text)
    if not found:
        raise ConfigurationError("bootstrap_servers is empty; pass at least one host:port")
    return found


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, "9092"
    bracketed = host.startswith("[") and host.endswith("]")
    name = host[1:-1] if bracketed else host
    if not name or not port.isascii() or not port.isdigit() or "/" in text or any(map(str.isspace, text)):
        raise ConfigurationError(
            f"bootstrap_servers: {text!r} is not of the form host:port, such as 'localhost:9092'"
        )
    if ":" in name and not bracketed:
        raise ConfigurationError(
            f"bootstrap_servers: {text!r} is an IPv6 address without brackets; write it as '[::1]:9092'"
        )
    # The length is checked first, because int() of a long text takes long.
    if len(port) > 5 or not 0 < int(port) < 65536:
        raise ConfigurationError(f"bootstrap_servers: the port of {text!r} is not a number from 1 to 65535")
    return name, int(port)
