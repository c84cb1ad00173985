"""No module of pyklient imports itself by way of others: not lazily, and not for its annotations either."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

CYTHON_IMPORT = re.compile(
    r"^(?:from ([\w.]+) c?import (\(.*?\)|.*?)$|c?import ([\w., ]+)$)", re.MULTILINE | re.DOTALL
)


def module_files(root: Path) -> dict[str, list[Path]]:
    """Return the files of each module below *root*. A compiled module has the files that it includes, too."""
    modules: dict[str, list[Path]] = {}
    for path in sorted((root / "pyklient").rglob("*.py*")):
        if path.suffix == ".py":
            names = path.relative_to(root).with_suffix("").parts
            modules[".".join(names[:-1] if names[-1] == "__init__" else names)] = [path]
        elif path.suffix == ".pyx":
            names = path.relative_to(root).with_suffix("").parts
            names = tuple(name for name in names if name != "compiled")  # the folder of the kernel's sources
            modules[".".join(names)] = [path, *sorted(path.parent.rglob("*.pxi"))]
    return modules


def imports_of(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield each imported module with the names taken from it, wherever in the file the import stands."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        for found in CYTHON_IMPORT.finditer(text):
            if found[1]:
                yield found[1], re.findall(r"\w+", found[2])
            else:
                for name in found[3].split(","):
                    yield name.strip(), []
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} has a relative import"
            yield node.module or "", [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, []


def import_graph(root: Path) -> dict[str, set[str]]:
    """Return the modules below *root* that each of them imports."""
    modules = module_files(root)
    graph: dict[str, set[str]] = {name: set() for name in modules}
    for name, paths in modules.items():
        for path in paths:
            for module, names in imports_of(path):
                for imported in [f"{module}.{each}" for each in names] or [module]:
                    target = imported if imported in modules else module
                    if target in modules and target != name:
                        graph[name].add(target)
    return graph


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules that reach each other, each group sorted, by Tarjan's algorithm."""
    found: list[list[str]] = []
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []

    def visit(module: str) -> None:
        number[module] = lowest[module] = len(number)
        stack.append(module)
        for other in sorted(graph[module]):
            if other not in number:
                visit(other)
            if other in stack:
                lowest[module] = min(lowest[module], lowest[other])
        if lowest[module] == number[module]:
            group = stack[stack.index(module) :]
            del stack[-len(group) :]
            if len(group) > 1:
                found.append(sorted(group))

    for module in sorted(graph):
        if module not in number:
            visit(module)
    return found


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circles(import_graph(ROOT)) == []


@pytest.mark.parametrize(
    "source",
    [
        "from pyklient.a import thing",
        "from pyklient import a",
        "def later():\n    import pyklient.a",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from pyklient.a import thing",
    ],
    ids=["plain", "submodule", "lazy", "annotations"],
)
def test_a_circle_is_found_wherever_the_import_stands(tmp_path: Path, source: str) -> None:
    package = tmp_path / "pyklient"
    package.mkdir()
    for name, text in (
        ("__init__", ""),
        ("a", "import pyklient.b"),
        ("b", source),
        ("c", "import pyklient.a"),
    ):
        (package / f"{name}.py").write_text(text, encoding="utf-8")
    assert circles(import_graph(tmp_path)) == [["pyklient.a", "pyklient.b"]]


def test_a_circle_through_a_compiled_module_is_found(tmp_path: Path) -> None:
    package = tmp_path / "pyklient"
    (package / "compiled").mkdir(parents=True)
    (package / "compiled/fast.pyx").write_text("from pyklient.slow import (\n    one,\n)\n", encoding="utf-8")
    (package / "slow.py").write_text("from pyklient import fast", encoding="utf-8")
    assert circles(import_graph(tmp_path)) == [["pyklient.fast", "pyklient.slow"]]
