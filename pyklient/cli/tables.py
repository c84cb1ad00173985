"""Prints tables: with lines on a terminal, as plain columns in a pipe."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

__all__ = ["print_json", "print_table"]

_WIDE = 10_000


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str | None = None) -> None:
    """Print *rows* as a table on standard output. Columns of numbers are aligned to the right."""
    terminal = sys.stdout.isatty()
    console = Console(width=None if terminal else _WIDE, highlight=False, markup=False, emoji=False)
    listed = [list(row) for row in rows]
    table = Table(
        title=title, title_justify="left", box=box.SIMPLE_HEAD if terminal else None, pad_edge=False
    )
    for index, column in enumerate(columns):
        numbers = bool(listed) and all(isinstance(row[index], int | float | None) for row in listed)
        table.add_column(column, justify="right" if numbers else "left", overflow="fold")
    for row in listed:
        table.add_row(*(_cell(value) for value in row))
    console.print(table)


def print_json(value: Any) -> None:
    """Print *value* as one line of JSON on standard output, in UTF-8 even if the terminal has another
    encoding."""
    sys.stdout.flush()
    sys.stdout.buffer.write(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
    sys.stdout.buffer.flush()


def _cell(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) and sys.stdout.isatty() else str(value)
