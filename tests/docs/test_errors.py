"""The page of errors lists all errors."""

from pyklient import errors
from tools.repository import ROOT


def test_every_error_is_on_the_page_that_says_what_to_do_about_it() -> None:
    text = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    classes = [name for name in errors.__all__ if isinstance(getattr(errors, name), type)]
    raised = [name for name in classes if issubclass(getattr(errors, name), Exception)]
    assert len(raised) > 15
    assert [name for name in raised if f"`{name}`" not in text] == []
