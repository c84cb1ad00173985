"""Writes measured rows into the tables of ``docs/benchmarks-scaling.md``."""

from collections.abc import Mapping

__all__ = ["with_rows"]


def with_rows(page: str, rows: Mapping[str, str]) -> str:
    """Return the text *page* with *rows* in place of its table rows that have the same title. *rows* has the
    whole row, as Markdown, by title.

    Raises ValueError if the page has no row with one of the titles.
    """
    lines = page.splitlines()
    for title, row in rows.items():
        found = [number for number, line in enumerate(lines) if line.startswith(f"| {title} |")]
        if not found:
            raise ValueError(f"the page has no row {title!r}; add an empty one to the table where it belongs")
        lines[found[0]] = row
    return "\n".join(lines) + "\n"
