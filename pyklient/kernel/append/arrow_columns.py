"""Describes columns of records to send, in Arrow's memory layout.

A column consists of *length* cells, beginning with cell *first* of its buffers:

- *validity* has a bit for each cell, lowest bit first: 1 if the cell is not null. None if no cell is null.
- *data* has the contents of the cells, one after the other.
- *offsets* has a number for each cell: the byte of *data* at which the cell begins. One more number tells
  where the last cell ends. The numbers have 32 bits, or 64 bits if *wide* is true.

All numbers are in the byte order of the machine.
"""

from typing import Final, NamedTuple

from pyklient.protocol.records.layout import Buffer

__all__ = ["AT_ONCE", "Cells", "HeaderLists", "Numbers"]

AT_ONCE: Final = 1 << 20
"""The number of bytes of records after which a call that appends rows returns, so that other threads can
run."""


class Cells(NamedTuple):
    """A column of bytes or text, in Arrow's layout. The kernel ignores bytes in *data* that belong to a null
    cell."""

    length: int
    first: int
    validity: Buffer | None
    offsets: Buffer
    data: Buffer
    wide: bool = False

    def check(self, name: str) -> None:
        """Raise ValueError, which names the column *name*, if a buffer of the column is too short. The
        numbers in the buffers are checked later, by the kernel."""
        _check_validity(name, self)
        _check_offsets(name, self)


class Numbers(NamedTuple):
    """A column of signed 64-bit numbers, in Arrow's layout."""

    length: int
    first: int
    validity: Buffer | None
    data: Buffer

    def check(self, name: str) -> None:
        """Raise ValueError, which names the column *name*, if a buffer of the column is too short."""
        _check_validity(name, self)
        _check_size(name, "data", self.data, 8 * (self.first + self.length))


class HeaderLists(NamedTuple):
    """A column in which each cell is a list of headers, in Arrow's layout. The value of a header may be null.

    The columns *names* and *values* have the headers of all lists. The *offsets* tell at which of these
    headers each list begins. They count headers from *base*: the first header has the number *base*.
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
        """Raise ValueError, which names the column *name*, if a buffer of the column is too short, or there
        are not as many names as values."""
        _check_validity(name, self)
        _check_offsets(name, self)
        self.names.check("headers.key")
        self.values.check("headers.value")
        if self.names.length != self.values.length:
            raise ValueError(
                f"the column 'headers' has {self.names.length} header keys, but {self.values.length} header "
                "values"
            )


def _check_validity(name: str, column: Cells | Numbers | HeaderLists) -> None:
    if column.length < 0 or column.first < 0:
        raise ValueError(
            f"the column {name!r} has the length {column.length} and the offset {column.first}: both must be "
            "0 or more"
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
        raise ValueError(f"column {name} has {size} bytes of {what}, but needs at least {least}")
