"""docs/logging.md lists the events that the code logs, with their fields."""

import ast
import re
from collections import defaultdict

from tools.repository import ROOT

_ROW = re.compile(r"^\| `([a-z_]+)(?:_…)?` \| (.+?) \| (.*?)\| (.+) \|$", re.M)


def logged() -> dict[str, set[str]]:
    """Return the events in the code, each with the fields of all its log records."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in sorted((ROOT / "pyklient").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            at = {"log_fields": 0, "Outage": 2}.get(node.func.id)
            name = node.args[at] if at is not None and len(node.args) > at else None
            if isinstance(name, ast.Constant):
                names = {keyword.arg or "" for keyword in node.keywords}
                found[str(name.value)] |= names - {"level", "clock"}
    return found


def test_the_table_of_events_is_that_of_the_code() -> None:
    text = (ROOT / "docs" / "logging.md").read_text(encoding="utf-8")
    table = text[text.index("| event |") : text.index("## On the command line")]
    listed = {name: set(re.findall(r"`([a-z_]+)`", fields)) for name, _, fields, _ in _ROW.findall(table)}
    assert listed == logged()
