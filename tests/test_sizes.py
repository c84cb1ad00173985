"""No class of pyklient has more than 300 lines, and no function more than 60.

The lines of a function are counted from its ``def``, without decorators, which declare the options of a
command. A table is not counted: a function that only returns one list, tuple, set or dictionary.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT = Path(__file__).parents[1]

CLASS_LINES: Final = 300
FUNCTION_LINES: Final = 60

CYTHON_CLASS: Final = re.compile(r" *(?:cdef +)?class +(\w+)")
CYTHON_FUNCTION: Final = re.compile(r" *(?:def|cp?def)\b[^=(]*?(\w+)\(")


def too_long(path: Path) -> list[str]:
    """Return the classes and functions in *path* that are too long."""
    text = path.read_text(encoding="utf-8")
    parts = python_parts(text) if path.suffix == ".py" else cython_parts(text)
    return [f"{path.name}: {name} has {size} lines" for name, size, limit in parts if size > limit]


def python_parts(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the name, lines and limit of each class and function in Python code."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            yield node.name, lines_of(node), CLASS_LINES
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not is_table(node):
            yield node.name, lines_of(node), FUNCTION_LINES


def lines_of(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def is_table(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return True if *node* is a function that only returns a literal."""
    *before, last = node.body
    is_docstring = [isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant) for each in before]
    literals = ast.List | ast.Tuple | ast.Set | ast.Dict
    return (
        len(before) <= 1
        and all(is_docstring)
        and isinstance(last, ast.Return)
        and isinstance(last.value, literals)
    )


def cython_parts(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the name, lines and limit of each class and function in Cython code.

    Each ends before the next line that is not indented further, unless that line closes its parameters.
    """
    lines = text.splitlines()
    for first, line in enumerate(lines):
        of_class, of_function = CYTHON_CLASS.match(line), CYTHON_FUNCTION.match(line)
        found = of_class or of_function
        if found is None:
            continue
        indent = len(line) - len(line.lstrip())
        last = first
        for number in range(first + 1, len(lines)):
            rest = lines[number].lstrip()
            if rest and len(lines[number]) - len(rest) <= indent and not rest.startswith(")"):
                break
            if rest:
                last = number
        yield found[1], last - first + 1, CLASS_LINES if of_class else FUNCTION_LINES


def test_classes_and_functions_are_short() -> None:
    files = [
        path for path in sorted((ROOT / "pyklient").rglob("*")) if path.suffix in (".py", ".pyx", ".pxi")
    ]
    assert len(files) > 200
    assert [each for path in files for each in too_long(path)] == []


FILLER = "    x = 1\n"
LONG_FUNCTION = "def f(\n    a,\n):\n" + FILLER * 58
LONG_CLASS = "class C:\n" + FILLER * 300


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("a.py", LONG_FUNCTION, ["a.py: f has 61 lines"]),
        ("a.py", LONG_FUNCTION.removesuffix(FILLER), []),
        ("a.py", "class C:\n    async def f(self):\n" + f"    {FILLER}" * 60, ["a.py: f has 61 lines"]),
        ("a.py", "@option(\n" + "    1,\n" * 60 + ")\ndef f():\n    pass\n", []),
        ("a.py", "def f():\n    '''All.'''\n    return [\n" + "        1,\n" * 60 + "    ]\n", []),
        (
            "a.py",
            "def f():\n    x = 1\n    return [\n" + "        x,\n" * 60 + "    ]\n",
            ["a.py: f has 64 lines"],
        ),
        ("a.py", LONG_CLASS, ["a.py: C has 301 lines"]),
        ("a.pxi", "cdef inline Fault " + LONG_FUNCTION.removeprefix("def "), ["a.pxi: f has 61 lines"]),
        (
            "a.pxi",
            "cdef inline Fault " + LONG_FUNCTION.removeprefix("def ") + "\n\ncdef int x = 1\n",
            ["a.pxi: f has 61 lines"],
        ),
        ("a.pxi", "cdef " + LONG_CLASS, ["a.pxi: C has 301 lines"]),
        ("a.pxi", LONG_CLASS.removesuffix(FILLER) + "\n\ncdef int x = 1\n", []),
    ],
)
def test_what_is_too_long_is_found(tmp_path: Path, name: str, text: str, found: list[str]) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    assert too_long(path) == found
