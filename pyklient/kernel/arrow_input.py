"""Columns of records to be sent, in Arrow's memory layout: buffers, and where in them a column begins.

A column of *length* cells from cell *first* on. *validity* has a bit for each cell, lowest first, or is None
where no cell is null; *offsets* has length + 1 numbers of 32 bits (64 where *wide*) that say where in *data*
each cell begins and ends. All numbers are in the byte order of the machine.
"""

from typing import Final, NamedTuple

from pyklient.protocol.records.layout import Buffer

__all__ = ["AT_ONCE", "Cells", "HeaderLists", "Numbers"]

AT_ONCE: Final = 1 << 20
"""Bytes of records after which a call that appends rows lets other threads have their turn."""


class Cells(NamedTuple):
    """Bytes or text. Of *data*, too, a cell that is null may have some."""

    length: int
    first: int
    validity: Buffer | None
    offsets: Buffer
    data: Buffer
    wide: bool = False

    def check(self, name: str) -> None:
        """Raises ValueError where a buffer is shorter than it has to be. Numbers in it are for the kernel."""
        _check_validity(name, self)
        _check_offsets(name, self)


class Numbers(NamedTuple):
    """Signed numbers of 64 bits."""

    length: int
    first: int
    validity: Buffer | None
    data: Buffer

    def check(self, name: str) -> None:
        """See Cells."""
        _check_validity(name, self)
        _check_size(name, "data", self.data, 8 * (self.first + self.length))


class HeaderLists(NamedTuple):
    """Lists of headers: here *offsets* count cells of *names* and *values*, whose first one they call *base*.
    A header's value may be null."""

    length: int
    first: int
    validity: Buffer | None
    offsets: Buffer
    names: Cells
    values: Cells
    base: int = 0
    wide: bool = False

    def check(self, name: str) -> None:
        """See Cells."""
        _check_validity(name, self)
        _check_offsets(name, self)
        self.names.check("headers.key")
        self.values.check("headers.value")
        if self.names.length != self.values.length:
            raise ValueError("column headers: not as many names as values")


def _check_validity(name: str, column: Cells | Numbers | HeaderLists) -> None:
    if column.length < 0 or column.first < 0:
        raise ValueError(f"column {name}: {column.length} cells from {column.first} on")
    if column.validity is not None:
        _check_size(name, "validity", column.validity, (column.first + column.length + 7) // 8)


def _check_offsets(name: str, column: Cells | HeaderLists) -> None:
    # of a column without cells, Arrow may leave out even the one offset
    cells = column.first + column.length + 1 if column.length else 0
    _check_size(name, "offsets", column.offsets, (8 if column.wide else 4) * cells)


def _check_size(name: str, what: str, buffer: Buffer, least: int) -> None:
    size = memoryview(buffer).nbytes
    if size < least:
        raise ValueError(f"column {name}: {size} bytes of {what}, and {least} are needed")
