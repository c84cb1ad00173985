"""The direction of imports between tests, tools and the servers that both start."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.repository import ROOT


def imported(folder: str, package: str) -> Iterator[tuple[Path, str]]:
    """The modules of *package* that files below *folder* import, with the file."""
    for path in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                names = [f"{node.module}.{each.name}" for each in node.names]
            elif isinstance(node, ast.Import):
                names = [each.name for each in node.names]
            else:
                continue
            yield from ((path, name) for name in names if name.startswith(f"{package}."))


def test_tools_import_nothing_of_the_tests_but_their_servers() -> None:
    found = list(imported("tools", "tests"))
    assert found
    assert [each for each in found if not each[1].startswith("tests.servers.")] == []


@pytest.mark.parametrize("folder", ["pyklient", "tests/servers", "examples"])
def test_what_tools_build_on_imports_no_tools(folder: str) -> None:
    assert list(imported(folder, "tools")) == []
