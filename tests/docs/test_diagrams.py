"""The state diagrams match the tables in the code."""

from tools.docs.diagrams import PAGE, drawn


def test_the_state_diagrams_are_those_of_the_tables() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == drawn(text), "run: python -m tools.docs.diagrams"
