"""Links between the documents lead to existing files and headings."""

import re
from pathlib import Path

import pytest

from tests.docs.markdown import DOCUMENTS
from tools.repository import ROOT

_LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]*))?\)")
_CHANGELOG = ROOT / "CHANGELOG.md"


@pytest.mark.parametrize("document", [*DOCUMENTS, _CHANGELOG], ids=lambda path: path.name)
def test_every_link_leads_to_a_file_and_a_heading(document: Path) -> None:
    targets = _LINK.findall(document.read_text(encoding="utf-8"))
    assert [each for each in targets if not _exists(document, *each)] == []


def _exists(document: Path, target: str, anchor: str) -> bool:
    path = document.parent / target if target else document
    return path.exists() and (path.suffix != ".md" or not anchor or anchor in _anchors(path))


def _anchors(path: Path) -> set[str]:
    """Return the anchors that GitHub makes of the headings of *path*."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}
