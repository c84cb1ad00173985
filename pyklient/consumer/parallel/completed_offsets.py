"""The text that a ParallelConsumer commits with an offset: it lists later offsets whose messages are handled.

A text describes the offsets after the committed one in one of two forms, whichever is shorter. The first form
lists the lengths of ranges of offsets: a range that is not completed, a range that is completed, and so on in
turn. The second form has one bit per offset. Brokers accept texts of 4,096 characters by default
(``offset.metadata.max.bytes``). ``fits`` tells in advance if a text will be short enough. A message is handed
out only if the text has space to list this message as completed.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

__all__ = ["decode", "encode", "fits"]

_LONGEST: Final = 4096
_RUNS: Final = "pyklient-completed-runs:"
_BITS: Final = "pyklient-completed-bits:"
_MOST_BYTES: Final = (_LONGEST - len(_RUNS)) // 4 * 3
_MOST_OFFSETS: Final = 1 << 62


def encode(first: int, completed: Sequence[range]) -> str:
    """Return the text that describes the offsets *completed*. They are in ascending order, and none is less
    than *first*.

    The text is empty if no offset is completed. If the text would be too long, it names only the offsets that
    are nearest to *first*.
    """
    while completed:
        runs, bits = _encode_runs(first, completed), _encode_bits(first, completed)
        use_bits = bits is not None and len(bits) < len(runs)
        content = bits if bits is not None and use_bits else runs
        if len(content) <= _MOST_BYTES:
            return (_BITS if use_bits else _RUNS) + b64encode(content).decode()
        completed = completed[: len(completed) // 2]
    return ""


def decode(first: int, text: str) -> list[range]:
    """Return the completed offsets in *text*, which was committed with the offset *first*.

    The list is empty if another program has written *text*, or if *text* is damaged.
    """
    try:
        if text.startswith(_RUNS):
            return list(_decode_runs(first, b64decode(text[len(_RUNS) :], validate=True)))
        if text.startswith(_BITS):
            return list(_decode_bits(first, b64decode(text[len(_BITS) :], validate=True)))
    except ValueError:
        pass
    return []


def fits(span: int, gaps: int) -> bool:
    """Return True if the text of :func:`encode` fits into the metadata of a commit, no matter which of the
    *span* offsets from the committed offset on are completed.

    *gaps* is the largest possible number of ranges of offsets that are not completed.
    """
    return span <= _MOST_BYTES * 8 or 2 * gaps * _varint_size(span) <= _MOST_BYTES


def _encode_runs(first: int, completed: Iterable[range]) -> bytes:
    content = bytearray()
    at = first
    for run in completed:
        for length in (run.start - at, len(run)):
            while length > 0x7F:
                content.append(length & 0x7F | 0x80)
                length >>= 7
            content.append(length)
        at = run.stop
    return bytes(content)


def _decode_runs(first: int, content: bytes) -> Iterator[range]:
    at, is_completed = first, False
    for length in _varints(content):
        if is_completed and length:
            yield range(at, at + length)
        at += length
        is_completed = not is_completed


def _varints(content: bytes) -> Iterator[int]:
    value = shift = 0
    for byte in content:
        value |= (byte & 0x7F) << shift
        shift += 7
        if value > _MOST_OFFSETS or shift > 70:
            raise ValueError(
                "the metadata of the commit has no valid list of completed offsets: a number in it is "
                "too large; another program may have written it"
            )
        if byte < 0x80:
            yield value
            value = shift = 0
    if shift:
        raise ValueError(
            "the metadata of the commit has no valid list of completed offsets: it ends within a number; "
            "another program may have written it"
        )


def _encode_bits(first: int, completed: Sequence[range]) -> bytes | None:
    """Return one bit for each offset from *first* on, which is 1 if the offset is completed. Return None if
    there are too many offsets."""
    size = (completed[-1].stop - first + 7) // 8
    if size > _MOST_BYTES:
        return None
    bits = 0
    for run in completed:
        bits |= ((1 << len(run)) - 1) << (run.start - first)
    return bits.to_bytes(size, "little")


def _decode_bits(first: int, content: bytes) -> Iterator[range]:
    bits, at = int.from_bytes(content, "little"), first
    while bits:
        skipped = (bits & -bits).bit_length() - 1
        bits >>= skipped
        length = (~bits & (bits + 1)).bit_length() - 1
        yield range(at + skipped, at + skipped + length)
        bits >>= length
        at += skipped + length


def _varint_size(value: int) -> int:
    return max(1, (value.bit_length() + 6) // 7)
