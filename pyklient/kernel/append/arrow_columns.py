"""Columns of records to send, in Arrow's memory layout.

A column is *length* cells of its buffers, from cell *first* on. *validity* has a bit for each cell, lowest
first, or is None if no cell is null. *offsets* has length + 1 numbers of 32 bits (64 if *wide*): the start of
each cell in *data*, and the end of the last one. All numbers are in the byte order of the machine.
"""

from typing import Final, NamedTuple

from pyklient.protocol.records.layout import Buffer

__all__ = ["AT_ONCE", "Cells", "HeaderLists", "Numbers"]

AT_ONCE: Final = 1 << 20
"""Bytes of records after which a call that appends rows returns, so that other threads can run."""


class Cells(NamedTuple):
    """A column of bytes or text. A cell that is null may nevertheless have bytes in *data*."""

    length: int
    first: int
    validity: Buffer | None
    offsets: Buffer
    data: Buffer
    wide: bool = False

    def check(self, name: str) -> None:
        """Raise ValueError if a buffer is too short. The kernel checks the numbers in the buffers."""
        _check_validity(name, self)
        _check_offsets(name, self)


class Numbers(NamedTuple):
    """A column of signed 64-bit numbers."""

    length: int
    first: int
    validity: Buffer | None
    data: Buffer

    def check(self, name: str) -> None:
        """Raise ValueError if a buffer is too short."""
        _check_validity(name, self)
        _check_size(name, "data", self.data, 8 * (self.first + self.length))


class HeaderLists(NamedTuple):
    """A column of lists of headers. A header's value may be null.

    *offsets* count cells of *names* and *values*; *base* is the offset of their first cell.
    """

    length: int
    first: int
    validity: Buffer | None
    offsets: Buffer
    names: Cells
    values: Cells
    base: int = 0
    wide: bool = False

    def check(self, name: str) -> None:
        """Raise ValueError if a buffer is too short."""
        _check_validity(name, self)
        _check_offsets(name, self)
        self.names.check("headers.key")
        self.values.check("headers.value")
        if self.names.length != self.values.length:
            raise ValueError("column headers does not have as many names as values")


def _check_validity(name: str, column: Cells | Numbers | HeaderLists) -> None:
    if column.length < 0 or column.first < 0:
        raise ValueError(f"column {name} cannot have {column.length} cells that begin at cell {column.first}")
    if column.validity is not None:
        _check_size(name, "validity", column.validity, (column.first + column.length + 7) // 8)


def _check_offsets(name: str, column: Cells | HeaderLists) -> None:
    # Arrow may leave out even the only offset of a column without cells.
    cells = column.first + column.length + 1 if column.length else 0
    _check_size(name, "offsets", column.offsets, (8 if column.wide else 4) * cells)


def _check_size(name: str, what: str, buffer: Buffer, least: int) -> None:
    size = memoryview(buffer).nbytes
    if size < least:
        raise ValueError(f"column {name}: {size} bytes of {what}, and {least} are needed")
