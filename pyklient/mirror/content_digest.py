"""Digests of records, to find out if two clusters have the same records.

Digests do not depend on offsets, or on the batches in which records are stored.
"""

import hashlib
import struct
from array import array
from collections.abc import Iterable, Sequence
from typing import Final

from pyklient.kernel import Message

__all__ = ["OrderedDigest", "UnorderedDigest"]

_SIZE: Final = 16
"""The size of a digest in bytes."""
_NULL: Final = -1
"""The length that stands for a key, value or header that is null."""
_LENGTHS: Final = struct.Struct(">qqq")


class OrderedDigest:
    """A digest of the records of one partition, in their order. Records are added in large groups.

    Keys, values, headers and timestamps are hashed separately, so adding a group of records takes few calls.
    The digest does not depend on how the records are grouped.
    """

    def __init__(self) -> None:
        self._keys = _ColumnHash()
        self._values = _ColumnHash()
        self._headers = _new_hash()
        self._timestamps = _new_hash()

    def add(self, messages: Sequence[Message]) -> None:
        """Add *messages*, which follow the messages that were added before."""
        self._keys.add([each.key for each in messages])
        self._values.add([each.value for each in messages])
        self._headers.update(b"".join(map(_headers, messages)))
        self._timestamps.update(array("q", [each.timestamp_ms for each in messages]).tobytes())

    def content(self) -> str:
        """Return the digest of keys, values and headers, in hexadecimal."""
        whole = _new_hash()
        for part in (self._keys, self._values, self._headers):
            whole.update(part.digest())
        return whole.hexdigest()

    def timestamps(self) -> str:
        """Return the digest of the timestamps, in hexadecimal."""
        return self._timestamps.hexdigest()


class _ColumnHash:
    """A hash of the keys of records, or of their values. A key or value is bytes or None."""

    def __init__(self) -> None:
        self._lengths = _new_hash()
        self._bytes = _new_hash()

    def add(self, column: Sequence[bytes | None]) -> None:
        """Add the keys or values of further records."""
        self._lengths.update(array("q", map(_length, column)).tobytes())
        self._bytes.update(b"".join(filter(None, column)))

    def digest(self) -> bytes:
        """Return two hashes, one after the other: of the lengths of the values, and of their bytes."""
        return self._lengths.digest() + self._bytes.digest()


class UnorderedDigest:
    """A digest of records whose order does not matter: the sum of the hashes of the records."""

    def __init__(self) -> None:
        self._content = 0
        self._timestamps = 0

    def add(self, messages: Sequence[Message]) -> None:
        """Add *messages*."""
        for message in messages:
            key, value, headers = message.key, message.value, _headers(message)
            lengths = _LENGTHS.pack(_length(key), _length(value), len(headers))
            self._content += _number(b"".join((lengths, key or b"", value or b"", headers)))
            # The key and the value are hashed too. Without them, the sum would stay the same if two records
            # had exchanged their timestamps.
            self._timestamps += _number(
                b"".join((lengths, key or b"", value or b"", b"%d" % message.timestamp_ms))
            )

    def content(self) -> str:
        """Return the digest of keys, values and headers, in hexadecimal."""
        return _hexadecimal(self._content)

    def timestamps(self) -> str:
        """Return the digest of the timestamps, in hexadecimal."""
        return _hexadecimal(self._timestamps)


def _new_hash() -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=_SIZE)


def _length(part: bytes | None) -> int:
    return _NULL if part is None else len(part)


def _headers(message: Message) -> bytes:
    """Return the headers of *message* as bytes, so that different headers have different bytes."""
    headers = message.headers
    if not headers:
        return b"\0"
    parts: list[bytes] = [b"%d" % len(headers)]
    for name, value in headers:
        parts += _sized(name.encode(errors="surrogateescape")), _sized(value)
    return b"".join(parts)


def _sized(part: bytes | None) -> bytes:
    return b"|%d:%b" % (_length(part), part or b"")


def _number(content: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(content, digest_size=_SIZE).digest(), "big")


def _hexadecimal(total: int) -> str:
    return f"{total % (1 << 8 * _SIZE):0{2 * _SIZE}x}"


def total_bytes(messages: Iterable[Message]) -> int:
    """Return the number of bytes of the keys and values of *messages*."""
    return sum(len(each.key or b"") + len(each.value or b"") for each in messages)
