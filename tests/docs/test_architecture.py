"""docs/architecture.md names files and functions; they are there."""

import ast
import re
from pathlib import Path

from tests.docs.markdown import ROOT

_PLACE = re.compile(r"`((?:[a-z_]+/)*[a-z_]+\.py):([A-Za-z_.]+)`")


def test_every_file_and_function_on_the_path_of_a_record_exists() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    places = _PLACE.findall(text)
    missing = [
        f"{file}:{name}" for file, name in places if name not in _definitions(ROOT / "pyklient" / file)
    ]
    assert len(places) > 20
    assert not missing


def _definitions(path: Path) -> set[str]:
    """Functions and classes of a module, methods as ``Class.method``."""
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
