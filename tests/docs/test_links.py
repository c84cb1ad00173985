"""Links between the documents lead to existing files and headings."""

import re
from pathlib import Path

import pytest

from tests.docs.markdown import DOCUMENTS

_LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_to_a_file_leads_to_one(document: Path) -> None:
    targets = _LINK.findall(document.read_text(encoding="utf-8"))
    assert [target for target in targets if not (document.parent / target).exists()] == []
