"""Columns in Arrow's memory layout, made without pyarrow, with junk bytes where Arrow allows them."""

from array import array
from collections.abc import Sequence
from typing import NamedTuple

from pyklient.kernel.append.arrow_columns import Cells, HeaderLists, Numbers
from pyklient.protocol.records.layout import Buffer, HeaderTuple

__all__ = ["PLAIN", "Shape", "cells", "header_lists", "numbers"]


class Shape(NamedTuple):
    """The layout of a column in its buffers: cells before it, 64-bit offsets, bytes in cells that are
    null."""

    first: int = 0
    wide: bool = False
    junk: bytes = b""
    always_validity: bool = False


PLAIN = Shape()


def cells(items: Sequence[bytes | None], shape: Shape = PLAIN) -> Cells:
    """Return a column of bytes."""
    every = [b"before"] * shape.first + [shape.junk if item is None else item for item in items]
    return Cells(
        len(items),
        shape.first,
        _validity(items, shape),
        _offsets(every, shape, len(shape.junk)),
        shape.junk + b"".join(every) + shape.junk,
        shape.wide,
    )


def numbers(items: Sequence[int | None], shape: Shape = PLAIN) -> Numbers:
    """Return a column of numbers."""
    every = [-7] * shape.first + [-9 if item is None else item for item in items]
    return Numbers(len(items), shape.first, _validity(items, shape), array("q", every).tobytes())


def header_lists(
    items: Sequence[HeaderTuple | None], shape: Shape = PLAIN, base: int = 0, inner: Shape = PLAIN
) -> HeaderLists:
    """Return a column of headers."""
    every: list[HeaderTuple] = [()] * shape.first + [item or () for item in items]
    pairs = [pair for item in every for pair in item]
    return HeaderLists(
        len(items),
        shape.first,
        _validity(items, shape),
        _offsets(every, shape, base),
        cells([name.encode() for name, _ in pairs], inner),
        cells([value for _, value in pairs], inner),
        base,
        shape.wide,
    )


def _validity(items: Sequence[object], shape: Shape) -> Buffer | None:
    if None not in items and not shape.always_validity:
        return None
    bits = 0
    for index, item in enumerate(items, shape.first):
        bits |= (item is not None) << index
    return bits.to_bytes((shape.first + len(items) + 7) // 8, "little")


def _offsets(every: Sequence[Sequence[object]], shape: Shape, begin: int) -> bytes:
    ends = array("q" if shape.wide else "i", [begin])
    for item in every:
        ends.append(ends[-1] + len(item))
    return ends.tobytes()
