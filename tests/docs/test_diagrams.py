"""The state diagrams match the tables in the code."""

from pathlib import Path

import pytest

from tools.docs.diagrams import DIAGRAMS, drawn


@pytest.mark.parametrize("page", DIAGRAMS, ids=lambda page: page.name)
def test_the_state_diagrams_are_those_of_the_tables(page: Path) -> None:
    assert page.read_text(encoding="utf-8") == drawn(page), "run: python -m tools.docs.diagrams"
