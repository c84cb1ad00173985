"""The elementary types of the protocol: big-endian integers, strings, arrays, varints, tagged fields.

A :class:`Reader` reads one frame and trusts no length: every count is compared with the number of bytes left
before memory of that size is allocated. Bytes that cannot be parsed raise a :class:`ProtocolError`.

A :class:`Writer` collects *parts*. Record bytes become parts of their own, so that they are sent from the
producer's batch to the socket without a copy.
"""

import struct
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

from pyklient.errors import ProtocolError

__all__ = [
    "Buffer",
    "Reader",
    "Writer",
    "ZERO_UUID",
    "encode_unsigned_varint",
    "total_size",
]

Buffer: TypeAlias = bytes | bytearray | memoryview

ZERO_UUID: Final = bytes(16)

_MOST_ELEMENTS: Final = 1 << 20
"""The largest number of array elements and tagged fields in one request, response or other message of the
protocol. It limits the work that a malicious frame can cause."""

_NUMBERS_PER_ELEMENT: Final = 8
"""The number of elements of an array of numbers that count as one element towards ``_MOST_ELEMENTS``. A
number costs much less work than other array elements."""

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


def total_size(buffers: Iterable[Buffer]) -> int:
    """Return the total size of *buffers* in bytes, even if the items of a buffer are larger than a byte."""
    total = 0
    for buffer in buffers:
        if type(buffer) is memoryview:
            total += buffer.nbytes
        elif type(buffer) is bytes or type(buffer) is bytearray:
            total += len(buffer)
        else:
            total += memoryview(buffer).nbytes
    return total


def encode_unsigned_varint(value: int) -> bytes:
    """Encode *value* (0 or more) as a varint: groups of seven bits, the lowest first.

    The high bit of a byte means that another group follows.
    """
    if value < 0x80:
        return _ONE_BYTE[value]
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_ONE_BYTE: Final = [bytes((value,)) for value in range(0x80)]


class Reader:
    """Reads the bytes of one frame: ``data`` is the frame, ``pos`` the next byte to read, ``end`` the
    position after the last byte."""

    __slots__ = ("allowance", "data", "end", "pos")

    def __init__(self, buffer: Buffer) -> None:
        view = memoryview(buffer)
        self.data = view if view.format == "B" else view.cast("B")
        self.pos = 0
        self.end = len(self.data)
        self.allowance = _MOST_ELEMENTS

    @property
    def remaining(self) -> int:
        """The number of bytes that have not been read yet."""
        return self.end - self.pos

    def slice(self, length: int) -> memoryview:
        """Read *length* bytes. Return them as a view of the frame."""
        start = self.pos
        stop = start + length
        if length < 0 or stop > self.end:
            raise ProtocolError(
                f"a value of {length} bytes begins at byte {start}, but only {self.end - start} bytes remain"
            )
        self.pos = stop
        return self.data[start:stop]

    def number(self, form: struct.Struct) -> Any:
        """Read one number that has the ``struct`` layout *form*."""
        start = self.pos
        self.pos = start + form.size
        if self.pos > self.end:
            raise ProtocolError(f"the {form.size}-byte number at byte {start} is cut off")
        return form.unpack_from(self.data, start)[0]

    def int16(self) -> int:
        """Read a signed number of two bytes."""
        return int(self.number(_INT16))

    def int32(self) -> int:
        """Read a signed number of four bytes."""
        return int(self.number(_INT32))

    def unsigned_varint(self) -> int:
        """Read an unsigned varint of at most 32 bits, which takes one to five bytes."""
        pos = self.pos
        data = self.data
        if pos < self.end and (first := data[pos]) < 0x80:
            self.pos = pos + 1
            return first
        return self._long_varint()

    def _long_varint(self) -> int:
        pos = start = self.pos
        data = self.data
        value = shift = 0
        while True:
            if pos >= self.end:
                raise ProtocolError(f"the varint at byte {start} is cut off")
            byte = data[pos]
            pos += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift >= 32:
                raise ProtocolError(f"the varint at byte {start} has more than five bytes")
        if value >> 32:
            raise ProtocolError(f"the varint at byte {start} needs more than 32 bits")
        self.pos = pos
        return value

    def length16(self) -> int:
        """Read the length of a string that is not in compact form. It takes two bytes; -1 means null."""
        return self._at_least_null(self.int16())

    def length32(self) -> int:
        """Read the length of bytes or of an array that are not in compact form. It takes four bytes; -1 means
        null."""
        return self._at_least_null(self.int32())

    def compact_length(self) -> int:
        """Read a compact length: an unsigned varint that contains the length plus one.

        The varint 0 means null; the method then returns -1.
        """
        return self.unsigned_varint() - 1

    def _at_least_null(self, length: int) -> int:
        if length < -1:
            raise ProtocolError(f"the length before byte {self.pos} is negative: {length}")
        return length

    def count(self, length: int, least: int) -> int:
        """Return *length* if the remaining bytes can contain that many array elements of at least *least*
        bytes each. Otherwise raise ProtocolError."""
        if length < 0 or length * least > self.end - self.pos:
            raise ProtocolError(
                f"an array of {length} elements begins at byte {self.pos}, but only "
                f"{self.end - self.pos} bytes remain"
            )
        self._charge(length)
        return length

    def numbers(self, length: int, form: str) -> list[Any]:
        """Read *length* numbers that all have the ``struct`` format *form*."""
        start = self.pos
        size = struct.calcsize(">" + form)
        if length < 0 or length * size > self.end - start:
            raise ProtocolError(
                f"an array of {length} numbers begins at byte {start}, but only {self.end - start} bytes "
                "remain"
            )
        self._charge(length // _NUMBERS_PER_ELEMENT)
        self.pos = start + length * size
        return list(struct.unpack_from(f">{length}{form}", self.data, start))

    def _charge(self, elements: int) -> None:
        self.allowance -= elements
        if self.allowance < 0:
            raise ProtocolError(
                f"a request or response has more than {_MOST_ELEMENTS} array elements and tagged fields"
            )

    def string(self, length: int) -> str:
        """Read *length* bytes and decode them as UTF-8."""
        data = self.slice(length)
        try:
            return str(data, "utf-8")
        except UnicodeDecodeError as error:
            raise ProtocolError(f"the string at byte {self.pos - length} is not UTF-8: {error}") from None

    def skip_tagged_fields(self) -> None:
        """Skip all tagged fields of a structure."""
        pos = self.pos
        if pos < self.end and self.data[pos] == 0:
            self.pos = pos + 1
            return
        for _, size in self.tagged_fields():
            self.slice(size)

    def tagged_fields(self) -> Iterator[tuple[int, int]]:
        """Yield (tag, size) of each tagged field. The caller must read *size* bytes before it continues."""
        for _ in range(self.count(self.unsigned_varint(), 2)):
            tag = self.unsigned_varint()
            yield tag, self.unsigned_varint()


class Writer:
    """Collects the bytes of a request or response in parts. ``parts`` has the finished parts, and new bytes
    are added to ``buf``, the current part. The first part begins with *start*."""

    __slots__ = ("buf", "parts")

    def __init__(self, start: bytes = b"") -> None:
        self.buf = bytearray(start)
        self.parts: list[Buffer] = []

    def finish(self) -> list[Buffer]:
        """Return all parts that were written, in order."""
        if self.buf or not self.parts:
            self.parts.append(self.buf)
            self.buf = bytearray()
        return self.parts
