"""The pages docs/architecture….md name files, functions, threads and locks: exactly those that exist."""

import ast
import re
from pathlib import Path

from tests.docs.synchronization import locks, thread_names, threads
from tools.repository import ROOT

_PLACE = re.compile(r"`((?:[a-z_]+/)*[a-z_]+\.py):([A-Za-z_.]+)`")


def test_every_file_and_function_on_the_path_of_a_record_exists() -> None:
    pages = (ROOT / "docs").glob("architecture*.md")
    places = [place for page in pages for place in _PLACE.findall(page.read_text(encoding="utf-8"))]
    missing = [
        f"{file}:{name}" for file, name in places if name not in _definitions(ROOT / "pyklient" / file)
    ]
    assert len(places) > 20
    assert not missing


def test_every_thread_has_a_row_and_every_row_a_thread() -> None:
    rows = _table("Threads")
    made_by = {place for _, cell, *_ in rows for place in _PLACE.findall(cell)}
    assert made_by == {(thread.file, thread.owner) for thread in threads()}
    names = [name for first, *_ in rows for name in re.findall("`([^`]+)`", first.split(":")[0])]
    named = {re.sub("<[^>]*>", "<>", name) for name in names}
    assert named == thread_names()


def test_every_lock_has_a_row_and_every_row_a_lock() -> None:
    rows = set[tuple[str, str]]()
    for first, *_ in _table("Locks"):
        for file, names in re.findall(r"`([a-z_/]+\.py)`((?:,? `[a-z_]+`)+)", first):
            rows.update((file, name) for name in re.findall("`([a-z_]+)`", names))
    assert rows == {(lock.file, lock.name) for lock in locks()}


def test_at_most_five_modules_make_locks() -> None:
    makers = {lock.file for lock in locks()}
    assert len(makers) <= 5, f"these modules make locks: {', '.join(sorted(makers))}"


def _table(heading: str) -> list[list[str]]:
    """Return the rows of the table under *heading*, without its head."""
    text = (ROOT / "docs" / "architecture-threads.md").read_text(encoding="utf-8")
    section = text.split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def _definitions(path: Path) -> set[str]:
    """Return the functions and classes of a module, methods as ``Class.method``."""
    if not path.is_file():
        return set()
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            inner = (each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
            found.update(f"{node.name}.{each.name}" for each in inner)
    return found
