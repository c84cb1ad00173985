"""`make prose`: draw docstrings, messages and pages at random, and print them for an editor.

An editor who knows a text does not see where it is hard to read. A random sample shows each text as a new
reader meets it: a docstring below the signature of what it describes, a message alone. The same seed draws
the same sample from the same tree.

examples:
  make prose                        a sample of thirty docstrings, thirty messages and three pages
  make prose SEED=7                 the sample of another seed
  python -m tools.prose --seed 7    the same
  python -m tools.prose --openings  docstrings that open with a question word, counted for each folder
"""

import ast
import random
import re
import subprocess
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tools.repository import ROOT

__all__ = ["Text", "docstrings", "main", "messages", "opens_with_question_word", "pages"]

_QUESTION_WORDS = frozenset({"whether", "what", "why", "who", "whose", "how", "when", "where", "which"})
_Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
_MOST_FIELDS = 12
_LOG_METHODS = frozenset({"debug", "info", "warning", "error", "exception", "critical"})


class Text(NamedTuple):
    """A text of the tree, and the file and line where it begins.

    ``heading`` is the line that every reader sees above the text: the signature of the function, class (with
    its constructor) or attribute that a docstring describes, or the error or log level of a message. Empty
    for a page.
    """

    place: str
    text: str
    heading: str = ""


def docstrings(root: Path = ROOT) -> list[Text]:
    """Return the docstrings of the package's modules, classes, functions and attributes."""
    return [
        Text(f"{file}:{line}", text, heading)
        for file, tree in _modules(root)
        for line, text, heading in sorted(_docstrings(tree))
    ]


def messages(root: Path = ROOT) -> list[Text]:
    """Return the texts of the package's exceptions and log lines, with expressions in braces."""
    return [
        Text(f"{file}:{line}", text, heading)
        for file, tree in _modules(root)
        for line, text, heading in sorted(_messages(tree))
    ]


def pages(root: Path = ROOT) -> list[Text]:
    """Return the pages of the documentation."""
    files = [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").glob("*.md"))]
    return [Text(f"{file.relative_to(root)}:1", file.read_text(encoding="utf-8")) for file in files]


def opens_with_question_word(docstring: str) -> bool:
    """Return whether the first word of *docstring* is Whether, What, Why or the like."""
    first = docstring.split(maxsplit=1)[0] if docstring.strip() else ""
    return first.rstrip(",:;").lower() in _QUESTION_WORDS


def _modules(root: Path) -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted((root / "pyklient").rglob("*.py")):
        yield path.relative_to(root), ast.parse(path.read_text(encoding="utf-8"))


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    """Yield line, text and heading of each string that stands alone first in a body or after an
    assignment."""
    outer = {id(child): node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | _Definition):
            continue
        before: ast.stmt | None = None
        for number, statement in enumerate(node.body):
            if number == 0 or isinstance(before, ast.Assign | ast.AnnAssign):
                match statement:
                    case ast.Expr(value=ast.Constant(value=str(text))):
                        documented = before or (node if isinstance(node, _Definition) else None)
                        yield statement.lineno, text, _heading(documented, outer)
            before = statement


def _heading(documented: ast.stmt | None, outer: dict[int, ast.AST]) -> str:
    """Return the first line of *documented* with the names of the classes and functions around it; empty for
    a module."""
    if documented is None:
        return ""
    around, node = [], outer.get(id(documented))
    while node is not None:
        if isinstance(node, _Definition):
            around.append(node.name)
        node = outer.get(id(node))
    where = f"  (in {'.'.join(reversed(around))})" if around else ""
    match documented:
        case ast.ClassDef(name=name, bases=bases):
            inherited = f"({', '.join(map(ast.unparse, bases))})" if bases else ""
            return f"class {name}{inherited}{where}{_constructor(documented)}"
        case (
            ast.FunctionDef(name=name, args=arguments, returns=returns)
            | ast.AsyncFunctionDef(name=name, args=arguments, returns=returns)
        ):
            result = "" if returns is None else f" -> {ast.unparse(returns)}"
            return f"def {name}({ast.unparse(arguments)}){result}{where}"
    return f"{ast.unparse(documented).partition(' = ')[0]}{where}"


def _constructor(documented: ast.ClassDef) -> str:
    """Return how the class is called: with the arguments of ``__init__``, or with the fields of a dataclass
    or a NamedTuple; empty without any."""
    for statement in documented.body:
        match statement:
            case ast.FunctionDef(name="__init__", args=arguments):
                given = ast.unparse(arguments).removeprefix("self").removeprefix(", ")
                return f", made by {documented.name}({given})"
    marks = " ".join(map(ast.unparse, [*documented.decorator_list, *documented.bases]))
    fields = [
        f"{ast.unparse(each.target)}: {ast.unparse(each.annotation)}"
        for each in documented.body
        if isinstance(each, ast.AnnAssign) and "ClassVar" not in ast.unparse(each.annotation)
    ]
    if not fields or not re.search(r"\b(dataclass|NamedTuple)\b", marks):
        return ""
    shown = [*fields[:_MOST_FIELDS], "…"] if len(fields) > _MOST_FIELDS else fields
    return f", made by {documented.name}({', '.join(shown)})"


def _messages(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    raised = {id(node.exc) for node in ast.walk(tree) if isinstance(node, ast.Raise)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (id(node) in raised or _is_error(node) or _is_log_line(node)):
            texts = [_text(each) for each in [*node.args, *(keyword.value for keyword in node.keywords)]]
            longest = max(texts, key=len, default="")
            if " " in longest:
                yield node.lineno, longest, ast.unparse(node.func)


def _is_error(call: ast.Call) -> bool:
    return _name(call.func).endswith("Error")


def _is_log_line(call: ast.Call) -> bool:
    return (
        isinstance(call.func, ast.Attribute)
        and call.func.attr in _LOG_METHODS
        and "log" in _name(call.func.value).lower()
    )


def _name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=function):
            return _name(function)
    return ""


def _text(node: ast.expr) -> str:
    """Return the text of an expression: literals as they are, all else in braces. Empty without a literal."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(_text(each) for each in values)
        case ast.FormattedValue(value=value):
            return f"{{{ast.unparse(value)}}}"
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            parts = [_text(left), _text(right)]
            return "".join(part or "{…}" for part in parts) if any(parts) else ""
        case ast.IfExp(body=body, orelse=orelse):
            return _text(body) or _text(orelse)
    return ""


def _seed_of_commit(root: Path) -> int:
    """Return a number that the commit checked out in *root* determines, or 0 outside a clone."""
    done = subprocess.run(
        ["git", "-C", root, "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    return int(done.stdout.strip()[:8] or "0", 16)


def _print_openings() -> None:
    counted, questions = Counter[str](), Counter[str]()
    for place, text, _ in docstrings():
        parts = Path(place.partition(":")[0]).parts
        folder = "/".join(parts[:2]) if len(parts) > 2 else "pyklient"
        counted[folder] += 1
        questions[folder] += opens_with_question_word(text)
    for folder in sorted(counted):
        print(f"{folder:<24} {questions[folder]:>4} of {counted[folder]:>4}")
    total = counted.total()
    print(f"{'all':<24} {questions.total():>4} of {total:>4}: {100 * questions.total() / total:.1f} %")


def _print_sample(title: str, texts: Sequence[Text]) -> None:
    print(f"\n===== {title} =====")
    for number, (place, text, heading) in enumerate(texts, 1):
        print(f"\n--- {number}. {place}")
        if heading:
            print(heading)
        print(text.strip())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return the exit status."""
    parser = ArgumentParser(
        prog="python -m tools.prose", description=__doc__, formatter_class=RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, help="draw the sample of this number (default: of the commit)")
    parser.add_argument("--openings", action="store_true", help="count docstrings by how they open, and stop")
    options = parser.parse_args(arguments)
    if options.openings:
        _print_openings()
        return 0
    seed = _seed_of_commit(ROOT) if options.seed is None else options.seed
    chance = random.Random(seed)
    print(f"seed {seed}")
    for title, texts, count in (
        ("docstrings", docstrings(), 30),
        ("messages of errors and log lines", messages(), 30),
        ("pages", pages(), 3),
    ):
        _print_sample(title, chance.sample(texts, min(count, len(texts))))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
