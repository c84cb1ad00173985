"""docs/glossary.md defines at most forty words, and the code does not use the words that they replace."""

import ast
import re

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


def test_no_name_in_the_code_has_a_word_that_the_glossary_replaces() -> None:
    banned = replaced()
    assert len(banned) > 15
    # The messages have the names of Kafka's own definitions.
    modules = [path for path in sorted((ROOT / "pyklient").rglob("*.py")) if path.parent.name != "messages"]
    named = [(path, name) for path in modules for name in names(path.stem, path.read_text(encoding="utf-8"))]
    assert len(named) > 3000
    assert [f"{path.relative_to(ROOT)} {name}" for path, name in named if words(name) & banned] == []


def test_the_names_of_a_module_are_those_of_all_that_it_defines() -> None:
    text = """
class Clerk:
    async def _takeOver(self, ticket): ...
    def go(self, *, desk=1, **rest):
        self.room = here = there = 2
        for place in self.asked.answers: ...
"""
    expected = "engine Clerk _takeOver go self ticket desk rest room here there place"
    assert names("engine", text) == set(expected.split())
    assert words("takeOver") == {"take", "over"}
    assert words("HTTP_TakeRest") == {"http", "take", "rest"}


def replaced() -> set[str]:
    """Return the single words in the first column of the second table."""
    return {word for cell, _ in rows(_REPLACED) for word in re.split(r",\s*", cell) if " " not in word}


def names(module: str, text: str) -> set[str]:
    """Return the name of *module*, and those of the classes, functions, parameters, attributes and variables
    that its *text* defines."""
    found = {module}
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case (
                ast.arg(arg=name)
                | ast.Attribute(attr=name, ctx=ast.Store())
                | ast.Name(id=name, ctx=ast.Store())
            ):
                found.add(name)
    return found


def words(name: str) -> set[str]:
    """Return the words of *name*, in lower case."""
    return {word.lower() for part in name.split("_") for word in re.split(r"(?<=[a-z])(?=[A-Z])", part)}
