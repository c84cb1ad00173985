"""`make prose`: it finds docstrings, messages and pages, and draws the same sample for the same seed."""

from pathlib import Path

import pytest

from tools import prose

MODULE = '''\
"""A shop."""

import logging

PRICE = 3
"""The price of a pen."""

_log = logging.getLogger("shop")
NAME = "not a docstring"


class Pen(NamedTuple):
    """A pen of one *colour*."""

    colour: str
    price: int = PRICE


class Shop:
    """A place that sells pens."""

    def __init__(self, town: str) -> None:
        self.town = town

    def sell(self, count: int) -> None:
        """Sell *count* pens."""
        "not a docstring, because it is not the first statement"
        if count < 0:
            raise ValueError(f"cannot sell {count - 1 + 1} pens; " "give a number above 0")
        _log.info("sold %d pens", count)
        print("not a message of an error")
'''


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "pyklient").mkdir()
    (tmp_path / "pyklient" / "shop.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "docs").mkdir()
    for page in ("README.md", "CONTRIBUTING.md", "docs/pens.md"):
        (tmp_path / page).write_text(f"# {page}\n", encoding="utf-8")
    return tmp_path


def test_docstrings_of_modules_classes_functions_and_attributes_are_found(tree: Path) -> None:
    assert prose.docstrings(tree) == [
        ("pyklient/shop.py:1", "A shop.", ""),
        ("pyklient/shop.py:6", "The price of a pen.", "PRICE"),
        (
            "pyklient/shop.py:13",
            "A pen of one *colour*.",
            "class Pen(NamedTuple), made by Pen(colour: str, price: int)",
        ),
        ("pyklient/shop.py:20", "A place that sells pens.", "class Shop, made by Shop(town: str)"),
        ("pyklient/shop.py:26", "Sell *count* pens.", "def sell(self, count: int) -> None  (in Shop)"),
    ]


def test_messages_of_errors_and_log_lines_are_found_with_expressions_in_braces(tree: Path) -> None:
    assert [(heading, text) for _, text, heading in prose.messages(tree)] == [
        ("ValueError", "cannot sell {count - 1 + 1} pens; give a number above 0"),
        ("_log.info", "sold %d pens"),
    ]


def test_pages_are_found(tree: Path) -> None:
    assert [page.text for page in prose.pages(tree)] == [
        "# README.md\n",
        "# CONTRIBUTING.md\n",
        "# docs/pens.md\n",
    ]


@pytest.mark.parametrize("text", ["What it does.", "Whether it is open", "How: by hand.", "  Where it\nis."])
def test_a_question_word_is_recognized(text: str) -> None:
    assert prose.opens_with_question_word(text)


@pytest.mark.parametrize("text", ["Return whether it is open.", "Whatever.", "", "A shop."])
def test_other_openings_are_not_question_words(text: str) -> None:
    assert not prose.opens_with_question_word(text)


def test_the_same_seed_draws_the_same_sample(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {"docstrings": prose.docstrings(), "messages": prose.messages()}  # they take seconds
    monkeypatch.setattr(prose, "docstrings", lambda: texts["docstrings"])
    monkeypatch.setattr(prose, "messages", lambda: texts["messages"])
    assert prose.main(["--seed", "7"]) == 0
    first = capsys.readouterr().out
    assert prose.main(["--seed", "7"]) == 0
    assert capsys.readouterr().out == first
    assert prose.main(["--seed", "8"]) == 0
    assert capsys.readouterr().out != first
    assert first.count("\n--- ") >= 63
