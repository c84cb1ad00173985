"""`make prose`: draw docstrings, messages and pages at random, and print them for an editor.

An editor who knows a text does not see where it is hard to read. A random sample shows each text without its
surroundings, as a new reader meets it. The same seed draws the same sample from the same tree.

examples:
  make prose                        a sample of thirty docstrings, thirty messages and three pages
  make prose SEED=7                 the sample of another seed
  python -m tools.prose --openings  docstrings that open with a question word, counted for each folder
"""

import ast
import random
import subprocess
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tools.repository import ROOT

__all__ = ["Text", "docstrings", "main", "messages", "opens_with_question_word", "pages"]

_QUESTION_WORDS = frozenset({"whether", "what", "why", "who", "whose", "how", "when", "where", "which"})
_LOG_METHODS = frozenset({"debug", "info", "warning", "error", "exception", "critical"})


class Text(NamedTuple):
    """A text of the tree, and the file and line where it begins."""

    place: str
    text: str


def docstrings(root: Path = ROOT) -> list[Text]:
    """Return the docstrings of the package's modules, classes, functions and attributes."""
    return [
        Text(f"{file}:{line}", text)
        for file, tree in _modules(root)
        for line, text in sorted(_docstrings(tree))
    ]


def messages(root: Path = ROOT) -> list[Text]:
    """Return the texts of the package's exceptions and log lines, with expressions in braces."""
    return [
        Text(f"{file}:{line}", text)
        for file, tree in _modules(root)
        for line, text in sorted(_messages(tree))
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


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield line and text of each string that stands alone first in a body or after an assignment."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        before: ast.stmt | None = None
        for number, statement in enumerate(node.body):
            if number == 0 or isinstance(before, ast.Assign | ast.AnnAssign):
                match statement:
                    case ast.Expr(value=ast.Constant(value=str(text))):
                        yield statement.lineno, text
            before = statement


def _messages(tree: ast.Module) -> Iterator[tuple[int, str]]:
    raised = {id(node.exc) for node in ast.walk(tree) if isinstance(node, ast.Raise)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (id(node) in raised or _is_error(node) or _is_log_line(node)):
            texts = [_text(each) for each in [*node.args, *(keyword.value for keyword in node.keywords)]]
            longest = max(texts, key=len, default="")
            if " " in longest:
                yield node.lineno, longest


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
    for place, text in docstrings():
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
    for number, (place, text) in enumerate(texts, 1):
        print(f"\n--- {number}. {place}\n{text.strip()}")


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
