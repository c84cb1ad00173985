"""The compression codecs of record batches, and the framings that Kafka puts around compressed data.

:func:`compress` and :func:`decompress` look the codec up by its number in the batch's attributes. Every codec
works on whole buffers and releases the GIL.

Decompression always has a size limit. A declared size is compared with the limit before memory is allocated,
and data of codecs that declare no size is read in parts. So a few hundred malicious bytes cannot become
gigabytes: they raise a :class:`~pyklient.errors.MessageTooLargeError`.

The library of a codec is imported when the codec is first used.
"""

import zlib
from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum
from functools import cache
from typing import Any, Final, NamedTuple

from pyklient.errors import CorruptRecordError, MessageTooLargeError, UnsupportedCodecError
from pyklient.protocol.records.layout import Buffer
from pyklient.protocol.records.lz4_header import with_classic_checksum, with_standard_checksum

__all__ = [
    "Compression",
    "DEFAULT_MAX_DECOMPRESSED",
    "Decompressor",
    "compress",
    "compression_of",
    "decompress",
]

DEFAULT_MAX_DECOMPRESSED: Final = 128 << 20
"""The number of bytes to which one batch may be decompressed by default."""

_PART: Final = 1 << 20
"""The number of bytes that a streaming codec decompresses at a time."""

_SMALL: Final = 64 << 10
"""The largest number of compressed bytes that are decompressed in one step, if that is possible. A stream
costs much more than one step if a batch has only a few records."""

_KEPT: Final = 4 << 20
"""The size in bytes of the block that :func:`_keep_freed_memory` allocates."""

_LZ4_MAX_RATIO: Final = 256
"""An upper limit on the number of bytes to which one byte of an lz4 block can expand."""

_FIRST_STEP: Final = 1 << 10
"""The number of bytes that the decompressor of gzip data gets first for the second and each later member,
because it is not known where such a member ends. For the first member it gets all bytes at once, because most
data has only one member."""


class Compression(IntEnum):
    """A compression codec, by its number in the attributes of a batch."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @classmethod
    def of(cls, name: str | None) -> "Compression":
        """Return the codec that Kafka calls *name*, such as ``gzip``. None and ``none`` mean no compression.

        Raises UnsupportedCodecError for a name that Kafka does not know.
        """
        if name is None:
            return cls.NONE
        try:
            return cls[name.upper()]
        except KeyError:
            raise UnsupportedCodecError(
                f"{name!r} is not a compression codec: use {', '.join(codec.name.lower() for codec in cls)}"
            ) from None


_CODECS: Final = tuple(Compression)
_LZ4_CODEC: Final = int(Compression.LZ4)
_ZSTD_CODEC: Final = int(Compression.ZSTD)


def compression_of(attributes: int, magic: int) -> Compression:
    """Return the codec in *attributes*, a field of every batch. Raises UnsupportedCodecError if Kafka has no
    such codec, or does not allow it in record format *magic*."""
    number = attributes & 0x07
    if number >= len(_CODECS):
        raise UnsupportedCodecError(f"compression codec {number} is not known to this client")
    codec = _CODECS[number]
    if magic < 2:
        check_pair(magic, codec)
    return codec


def check_pair(magic: int, codec: Compression) -> None:
    """Raise UnsupportedCodecError if Kafka does not allow *codec* in record format *magic*."""
    if codec is Compression.ZSTD and magic < 2:
        raise UnsupportedCodecError(f"zstd needs record format 2; format {magic} cannot carry it")


def compress(codec: Compression, data: Buffer, magic: int = 2) -> bytes:
    """Return *data* compressed with *codec*, in the form that batches of record format *magic* contain."""
    check_pair(magic, codec)
    return _REGISTRY[codec].compress(data, magic)


def decompress(
    codec: Compression, data: Buffer, magic: int = 2, limit: int = DEFAULT_MAX_DECOMPRESSED
) -> bytes:
    """Return the decompressed *data*. This is the inverse of :func:`compress`.

    Raises MessageTooLargeError if the result would be longer than *limit* bytes, and CorruptRecordError if
    *data* is not valid for the codec.
    """
    check_pair(magic, codec)
    return _REGISTRY[codec].decompress(data, magic, limit)


class Decompressor:
    """A function that decompresses the records of batches, one batch in each call. Only one thread may use
    it.

    The data is that of record format 2. A call raises MessageTooLargeError if the result would be longer than
    *limit* bytes, and CorruptRecordError if the data is not valid for the codec.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        # Kept for all batches: new ones cost more than the decompression of a small batch.
        self._lz4: Callable[[Buffer], bytes | None] | None = None
        self._zstd: Callable[[Buffer], bytes] | None = None

    def __call__(self, codec: int, data: Buffer) -> bytes:
        """Return the decompressed *data*. *codec* is the number of the codec."""
        _keep_freed_memory()
        if codec == _LZ4_CODEC:
            if self._lz4 is None:
                self._lz4 = _new_unlz4(self._limit)
            whole = self._lz4(data)
            return _unlz4(data, 2, self._limit) if whole is None else whole
        if codec == _ZSTD_CODEC:
            if self._zstd is None:
                self._zstd = _new_unzstd(self._limit)
            return self._zstd(data)
        return decompress(_CODECS[codec], data, 2, self._limit)


@cache
def _keep_freed_memory() -> None:
    """Let the memory of decompressed batches be used again, instead of going back to the system.

    Otherwise the system provides and clears new memory for each large batch. The C library glibc returns
    freed memory when more than a limit is free. The limit is twice the size of the largest block that had a
    mapping of its own and was freed. So this function allocates and frees a large block. Once in a process is
    enough, because the limit never falls. Later blocks of this size would have no mapping of their own, and
    Python would have to fill them with zeros.
    """
    bytes(_KEPT)


def _too_large() -> MessageTooLargeError:
    return MessageTooLargeError(
        "a compressed batch holds more bytes than this reader allows; if the sender can be trusted, set a "
        "higher max_decompressed_bytes"
    )


def _corrupt(codec: str, why: object) -> CorruptRecordError:
    return CorruptRecordError(f"{codec} data cannot be decompressed: {why}")


# --- none


def _plain(data: Buffer, magic: int) -> bytes:
    return bytes(data)


def _plain_back(data: Buffer, magic: int, limit: int) -> bytes:
    # what came uncompressed is in memory already: the limit is for what grows
    return bytes(data)


# --- gzip


def _gzip(data: Buffer, magic: int) -> bytes:
    return zlib.compress(data, wbits=31)


def _gunzip(data: Buffer, magic: int, limit: int) -> bytes:
    """Decompress all gzip members in *data*, one after the other, like Java's reader. There must be at least
    one. Raise MessageTooLargeError if the content would be longer than *limit* bytes."""
    view = memoryview(data)
    if len(view) <= _SMALL:
        stream = zlib.decompressobj(wbits=31)
        with suppress(zlib.error):
            only = stream.decompress(view, _PART)
            if stream.eof and not stream.unused_data and len(only) <= limit:
                return only
    members: list[bytes] = []
    position, step = 0, len(view)
    while position < len(view) or not members:
        member, size = _gunzip_member(view[position:], step, limit)
        members.append(member)
        position += size
        limit -= len(member)
        step = _FIRST_STEP
    return members[0] if len(members) == 1 else b"".join(members)


def _gunzip_member(data: memoryview, step: int, limit: int) -> tuple[bytes, int]:
    """Return the content of the first gzip member of *data*, and the size of the member.

    The decompressor gets *step* bytes, then twice as many, and so on. It does not get all bytes at once,
    because zlib copies all input that follows a member: with many members, these copies would take long.
    """
    stream = zlib.decompressobj(wbits=31)
    fed = min(step, len(data))

    def more(remainder: Buffer) -> tuple[bytes, Buffer]:
        nonlocal fed, step
        while not (part := stream.decompress(remainder, _PART)) and not stream.eof and fed < len(data):
            step *= 2
            remainder = data[fed : fed + step]
            fed += len(remainder)
        return part, b"" if stream.eof else stream.unconsumed_tail  # at the end the tail is unused data, too

    result = _in_parts("gzip", more, data[:fed], limit, zlib.error)
    if not stream.eof:
        raise _corrupt("gzip", "the compressed data is cut off")
    return result, fed - len(stream.unused_data)


def _in_parts(
    codec: str,
    more: Callable[[Buffer], tuple[bytes, Buffer]],
    remainder: Buffer,
    limit: int,
    failure: type[Exception] = RuntimeError,
) -> bytes:
    """Call *more* until it returns nothing, and join the parts that it returns. Raise MessageTooLargeError if
    they would be longer than *limit* bytes.

    *more* is called with the remaining input, at first with *remainder*. It returns the next part of the
    output, and the input that remains after this part. It raises *failure* for data that is not valid for the
    codec.
    """
    parts: list[bytes] = []
    try:
        while True:
            part, remainder = more(remainder)
            if not part:
                break
            limit -= len(part)
            if limit < 0:
                raise _too_large()
            parts.append(part)
    except (failure, RuntimeError, EOFError) as error:
        raise _corrupt(codec, error) from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


# --- snappy, in the framing of the xerial library that the Java client uses

_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK: Final = 32 << 10
_SNAPPY_MAX_RATIO: Final = 64
"""An upper limit on the number of bytes to which one byte of a snappy block can expand. A snappy element that
repeats earlier bytes produces at most 64 bytes."""


def _snappy(data: Buffer, magic: int) -> bytes:
    import snappy

    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK):
        block = snappy.compress(view[start : start + _XERIAL_BLOCK])
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _unsnappy(data: Buffer, magic: int, limit: int) -> bytes:
    view = memoryview(data)
    if bytes(view[:8]) != _XERIAL_MAGIC:
        return _unsnappy_block(view, limit)
    position = 0
    parts = []
    while position < len(view):
        # At the start, and where another stream follows: read as a length, it would be of no possible block.
        if bytes(view[position : position + len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC:
            position += len(_XERIAL_HEADER)
            if position > len(view):
                raise _corrupt("snappy", "the header of a snappy stream is cut off")
            continue
        size = int.from_bytes(view[position : position + 4], "big")
        position += 4
        if size > len(view) - position:
            raise _corrupt(
                "snappy", f"a snappy block has {size} bytes, but only {len(view) - position} bytes remain"
            )
        part = _unsnappy_block(view[position : position + size], limit)
        limit -= len(part)
        parts.append(part)
        position += size
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _unsnappy_block(block: memoryview, limit: int) -> bytes:
    import snappy

    declared = shift = 0
    for byte in block[:5]:
        declared |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if declared > len(block) * _SNAPPY_MAX_RATIO:
        raise _corrupt(
            "snappy",
            f"a snappy block of {len(block)} bytes claims to contain {declared} bytes, which is not possible",
        )
    if declared > limit:
        raise _too_large()
    try:
        return snappy.uncompress(block)
    except snappy.UncompressError as error:
        raise _corrupt("snappy", error.__cause__ or error) from None


# --- lz4 frames


def _lz4(data: Buffer, magic: int) -> bytes:
    import lz4.frame

    # The frame that the Java client writes: blocks of 64 KiB on their own, no checksums. Its reader
    # refuses linked blocks.
    frame = lz4.frame.compress(
        data, block_linked=False, block_size=lz4.frame.BLOCKSIZE_MAX64KB, store_size=False
    )
    return with_classic_checksum(frame) if magic == 0 else frame


def _unlz4(data: Buffer, magic: int, limit: int) -> bytes:
    import lz4.frame

    stream = lz4.frame.LZ4FrameDecompressor()

    def more(remainder: Buffer) -> tuple[bytes, Buffer]:
        # the stream keeps what it has not used, and takes nothing after its end
        return (b"" if stream.eof else stream.decompress(remainder, _PART)), b""

    result = _in_parts("lz4", more, with_standard_checksum(data) if magic == 0 else data, limit)
    if not stream.eof or stream.unused_data:
        raise _corrupt("lz4", "the compressed data is incomplete, or has bytes after its end")
    return result


def _new_unlz4(limit: int) -> Callable[[Buffer], bytes | None]:
    """Return a function that decompresses a small lz4 frame in one step.

    It returns None for data that it does not decompress: data that is not small or not valid, and data that
    would have more than *limit* bytes.
    """
    import lz4.frame

    library: Any = lz4.frame  # the functions that are used here have no type hints
    new_context, decompress_chunk = library.create_decompression_context, library.decompress_chunk
    context = new_context()

    def unlz4(data: Buffer) -> bytes | None:
        nonlocal context
        size = len(data)
        if size > _SMALL:
            return None
        whole: bytes
        try:
            # The library allocates this many bytes, which is more than any valid frame of this size contains.
            whole, used, ended = decompress_chunk(context, data, min(size * _LZ4_MAX_RATIO, _PART))
        except RuntimeError:
            ended = False
        if ended and used == size and len(whole) <= limit:
            return whole
        context = new_context()  # the old one may be in the middle of a frame
        return None

    return unlz4


# --- zstd

_ZSTD_STEP: Final = 64 << 10
"""The size in bytes of the memory into which a small zstd frame without a declared size is decompressed."""
_ZSTD_SMALL: Final = 8 << 10
"""The largest number of compressed bytes of a zstd frame without a declared size that is decompressed in one
step, into ``_ZSTD_STEP`` bytes of memory."""
_ZSTD_TRUSTED_RATIO: Final = 64
"""A zstd frame that declares at most this number of bytes for each compressed byte is decompressed in one
step, whatever its size. A larger declared size may be wrong, and would waste memory."""
_ZSTD_RUN: Final = 2
"""The bits in the header of a zstd block that say that the block is one repeated byte."""

_ZSTD_MAX_WINDOW: Final = 128 << 20
"""The largest window that the zstd library accepts by default. The command ``zstd`` writes larger windows
only on request."""


def _zstd(data: Buffer, magic: int) -> bytes:
    import zstandard

    return zstandard.ZstdCompressor().compress(data)


def _unzstd(data: Buffer, magic: int, limit: int) -> bytes:
    return _new_unzstd(limit)(data)


def _new_unzstd(limit: int) -> Callable[[Buffer], bytes]:
    """Return a function that decompresses zstd data. It raises MessageTooLargeError if the result would be
    longer than *limit* bytes."""
    from zstandard import ZstdDecompressor, ZstdError, frame_content_size, frame_header_size

    decompressor: Any = ZstdDecompressor(max_window_size=_ZSTD_MAX_WINDOW)

    def unzstd(data: Buffer) -> bytes:
        try:
            declared = frame_content_size(data)
        except ZstdError as error:
            raise _corrupt("zstd", error) from None
        if declared > limit:
            raise _too_large()
        whole: bytes
        # The library does not look behind a frame that is declared to be empty, or that declares no size.
        try:
            if 0 < declared <= max(_PART, len(data) * _ZSTD_TRUSTED_RATIO):
                whole = decompressor.decompress(data, allow_extra_data=False)
                return whole
            if declared < 0 and len(data) <= _ZSTD_SMALL and _is_one_frame(data, frame_header_size(data)):
                whole = decompressor.decompress(data, max_output_size=min(_ZSTD_STEP, limit))
                return whole
        except ZstdError:
            pass  # the data may be damaged, have several frames, or be too long when decompressed
        reader = decompressor.stream_reader(data, read_across_frames=True)
        return _in_parts("zstd", lambda remainder: (reader.read(_PART), remainder), b"", limit, ZstdError)

    return unzstd


def _is_one_frame(data: Buffer, header_size: int) -> bool:
    """Return True if *data* consists of one zstd frame, whose header has *header_size* bytes.

    Blocks follow the header of a frame, and four bytes with a checksum may follow the blocks (RFC 8878).
    """
    position = header_size
    try:
        while True:
            block = data[position] | data[position + 1] << 8 | data[position + 2] << 16
            position += 3 + (1 if block & 6 == _ZSTD_RUN else block >> 3)
            if block & 1:
                return position + (4 if data[4] & 4 else 0) == len(data)
    except IndexError:
        return False


class _Codec(NamedTuple):
    compress: Callable[[Buffer, int], bytes]
    decompress: Callable[[Buffer, int, int], bytes]


_REGISTRY: Final[dict[Compression, _Codec]] = {
    Compression.NONE: _Codec(_plain, _plain_back),
    Compression.GZIP: _Codec(_gzip, _gunzip),
    Compression.SNAPPY: _Codec(_snappy, _unsnappy),
    Compression.LZ4: _Codec(_lz4, _unlz4),
    Compression.ZSTD: _Codec(_zstd, _unzstd),
}
