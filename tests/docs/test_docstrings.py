"""Docstrings tell what a function does or what an object is; few of them begin with a question word."""

from tools.prose import docstrings, opens_with_question_word


def test_at_most_one_docstring_in_twenty_opens_with_a_question_word() -> None:
    found = docstrings()
    questions = [
        f"{place} {text.splitlines()[0]}" for place, text, _ in found if opens_with_question_word(text)
    ]
    assert len(found) > 1_000
    assert 20 * len(questions) <= len(found), "\n".join(questions)
