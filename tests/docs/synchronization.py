"""The locks and threads that the package's source makes."""

import ast
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final, NamedTuple

from tools.repository import ROOT

__all__ = ["Made", "locks", "thread_names", "threads"]

_PACKAGE: Final = ROOT / "pyklient"
_LOCKS: Final = {"Lock", "RLock", "Condition", "Semaphore", "BoundedSemaphore"}


class Made(NamedTuple):
    """A lock or a thread: its file below ``pyklient/``, its class, and the name that it is assigned to."""

    file: str
    owner: str
    name: str


class _Call(NamedTuple):
    node: ast.Call
    made: Made
    scope: Sequence[ast.AST]


def locks() -> set[Made]:
    """Return every lock that the package makes."""
    return {call.made for call in _calls(_LOCKS)}


def threads() -> set[Made]:
    """Return every thread that the package starts."""
    return {call.made for call in _calls({"Thread"})}


def thread_names() -> set[str]:
    """Return the names of the threads, with ``<>`` for parts that are known only at run time. If a class gets
    the name of its thread as an argument, the name is looked for in its callers. Raises AssertionError for a
    thread without a name."""
    names, told = set[str](), set[str]()
    for call in _calls({"Thread"}):
        given = [word.value for word in call.node.keywords if word.arg == "name"]
        assert given, f"a thread of {call.made.file} has no name"
        text = _text(given[0], call.scope)
        if text is None:
            told.add(call.made.owner)
        else:
            names.add(text)
    for owner in told:
        for call in _calls({owner, *(f"super of {name}" for name in _subclasses(owner))}):
            if call.node.args and (text := _text(call.node.args[0], call.scope)) is not None:
                names.add(text)
    return names


@cache
def _trees() -> dict[str, ast.Module]:
    return {
        str(path.relative_to(_PACKAGE)): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(_PACKAGE.rglob("*.py"))
    }


def _calls(functions: set[str]) -> Iterator[_Call]:
    for file, tree in _trees().items():
        yield from _calls_in(tree, functions, file, [tree])


def _calls_in(node: ast.AST, functions: set[str], file: str, scope: list[ast.AST]) -> Iterator[_Call]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call) and _called(child, scope) in functions:
            yield _Call(child, Made(file, _owner(scope), _target(scope)), tuple(scope))
        yield from _calls_in(child, functions, file, [*scope, child])


def _called(call: ast.Call, scope: Sequence[ast.AST]) -> str:
    """Return the name of the called object; ``super of X`` for ``super().__init__`` in a class X."""
    function = call.func
    if isinstance(function, ast.Name):
        return function.id
    if not isinstance(function, ast.Attribute):
        return ""
    if function.attr == "__init__" and isinstance(function.value, ast.Call):
        return f"super of {_owner(scope)}"
    return function.attr


def _owner(scope: Sequence[ast.AST]) -> str:
    return next((node.name for node in reversed(scope) if isinstance(node, ast.ClassDef)), "")


def _target(scope: Sequence[ast.AST]) -> str:
    for node in reversed(scope):
        if isinstance(node, ast.Assign | ast.AnnAssign):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            return target.attr if isinstance(target, ast.Attribute) else ast.unparse(target)
    return ""


def _text(value: ast.expr, scope: Sequence[ast.AST]) -> str | None:
    """Return a string literal, or the literal assigned to a variable of the same function; None if neither is
    known."""
    if isinstance(value, ast.Constant):
        return str(value.value)
    if isinstance(value, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "<>" for part in value.values)
    functions = [node for node in scope if isinstance(node, ast.FunctionDef)]
    if isinstance(value, ast.Name) and functions:
        for node in ast.walk(functions[-1]):
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == value.id:
                return _text(node.value, ())
    return None


def _subclasses(owner: str) -> Iterator[str]:
    for tree in _trees().values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and owner in [ast.unparse(base) for base in node.bases]:
                yield node.name
