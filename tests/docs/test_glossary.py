"""docs/glossary.md defines at most forty words, and the code does not use the words that they replace."""

import ast
import re
from pathlib import Path

from tools.repository import ROOT

_DEFINED, _REPLACED = (
    (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").split("## Words not to use\n")
)


def rows(text: str) -> list[list[str]]:
    """Return the cells of the table rows in *text*, without the heads."""
    lines = [line for line in text.splitlines() if re.match(r"\| (?!word |not |---)", line)]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_glossary_defines_at_most_forty_words_each_in_a_sentence_and_once() -> None:
    words = [word for word, *_ in rows(_DEFINED)]
    assert 30 < len(words) <= 40
    assert len(set(words)) == len(words)
    assert [word for word, meaning, _ in rows(_DEFINED) if not meaning.endswith(".")] == []


def test_a_word_is_not_both_defined_and_replaced() -> None:
    assert {word for word, *_ in rows(_DEFINED)}.isdisjoint(replaced())


def test_no_module_or_class_is_named_by_a_word_that_the_glossary_replaces() -> None:
    banned = replaced()
    assert len(banned) > 15
    # The messages have the names of Kafka's own definitions.
    modules = [path for path in sorted((ROOT / "pyklient").rglob("*.py")) if path.parent.name != "messages"]
    named = [name for path in modules for name in names(path)]
    assert len(named) > 300
    assert [name for name in named if name.rpartition(" ")[2].strip("_").lower() in banned] == []


def replaced() -> set[str]:
    """Return the single words in the first column of the second table."""
    return {word for cell, _ in rows(_REPLACED) for word in re.split(r",\s*", cell) if " " not in word}


def names(path: Path) -> list[str]:
    """Return the name of a module and the names of its classes, each with the path of the module before
    it."""
    classes = [
        node.name
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    ]
    return [f"{path.relative_to(ROOT)} {name}" for name in [path.stem, *classes]]
