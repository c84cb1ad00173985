"""The fenced blocks of a Markdown file, with the lines at which they start."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tools.repository import ROOT

__all__ = ["DOCUMENTS", "Block", "blocks"]

DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


class Block(NamedTuple):
    """One fenced block: its language, its text, and the number of the first line of its text, from 1."""

    language: str
    text: str
    line: int


def blocks(path: Path) -> Iterator[Block]:
    """Yield the fenced blocks of *path*, in order."""
    language, start, lines = None, 0, list[str]()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(keepends=True), 1):
        if not line.startswith("```"):
            lines.append(line)
        elif language is None:
            language, start, lines = line[3:].strip(), number + 1, []
        else:
            yield Block(language, "".join(lines), start)
            language = None
    assert language is None, f"{path.name}: the fence before line {start} does not end"
