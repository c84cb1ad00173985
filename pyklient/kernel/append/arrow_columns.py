"""Columns of records to send, in Arrow's memory layout.

A column is *length* cells of its buffers, beginning with cell *first*. *validity* has a bit for each cell,
lowest bit first, or is None if no cell is null. *offsets* has length + 1 numbers of 32 bits (64 if *wide*):
the start of each cell in *data*, and the end of the last one. All numbers are in the byte order of the
machine.
"""

from typing import Final, NamedTuple

from pyklient.protocol.records.layout import Buffer

__all__ = ["AT_ONCE", "Cells", "HeaderLists", "Numbers"]

AT_ONCE: Final = 1 << 20
"""A call that appends rows returns after this number of bytes of records, so that other threads can run."""


class Cells(NamedTuple):
    """A column of bytes or text, in Arrow's layout. A cell that is null may nevertheless have bytes in
    *data*."""

    length: int
    first: int
    validity: Buffer | None
    offsets: Buffer
    data: Buffer
    wide: bool = False

    def check(self, name: str) -> None:
        """Raise ValueError if a buffer of the column is too short. The numbers in the buffers are checked
        later, by the kernel."""
        _check_validity(name, self)
        _check_offsets(name, self)


class Numbers(NamedTuple):
    """A column of signed 64-bit numbers, in Arrow's layout."""

    length: int
    first: int
    validity: Buffer | None
    data: Buffer

    def check(self, name: str) -> None:
        """Raise ValueError if a buffer of the column is too short."""
        _check_validity(name, self)
        _check_size(name, "data", self.data, 8 * (self.first + self.length))


class HeaderLists(NamedTuple):
    """A column in which each cell is a list of headers, in Arrow's layout. The value of a header may be null.

    The *offsets* are indexes of cells in *names* and *values*. The first cell of these two columns has the
    index *base*.
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
        """Raise ValueError if a buffer of the column is too short, or there are not as many names as
        values."""
        _check_validity(name, self)
        _check_offsets(name, self)
        self.names.check("headers.key")
        self.values.check("headers.value")
        if self.names.length != self.values.length:
            raise ValueError(f"column headers has {self.names.length} names, but {self.values.length} values")


def _check_validity(name: str, column: Cells | Numbers | HeaderLists) -> None:
    if column.length < 0 or column.first < 0:
        raise ValueError(
            f"column {name} has length {column.length} and first cell {column.first}: neither can be negative"
        )
    if column.validity is not None:
        _check_size(name, "validity", column.validity, (column.first + column.length + 7) // 8)


def _check_offsets(name: str, column: Cells | HeaderLists) -> None:
    # Arrow may leave out even the only offset of a column without cells.
    cells = column.first + column.length + 1 if column.length else 0
    _check_size(name, "offsets", column.offsets, (8 if column.wide else 4) * cells)


def _check_size(name: str, what: str, buffer: Buffer, least: int) -> None:
    size = memoryview(buffer).nbytes
    if size < least:
        raise ValueError(f"column {name} has {size} bytes of {what}, but needs {least}")
