"""Draws the state diagrams of docs/groups.md from the transition tables in the code.

``python -m tools.docs.diagrams`` writes them into the page; a test compares them.
"""

import re
from collections.abc import Mapping
from enum import Enum
from typing import TypeVar

from pyklient.broker.groups import states as group_states
from pyklient.consumer.group.classic import states
from tools.repository import ROOT

__all__ = ["DIAGRAMS", "PAGE", "drawn"]

_State = TypeVar("_State", bound=Enum)
_Event = TypeVar("_Event", bound=Enum)

PAGE = ROOT / "docs" / "groups.md"


def _diagram(table: Mapping[tuple[_State, _Event], _State], first: _State) -> str:
    lines = ["stateDiagram-v2", f"    [*] --> {first.value}"]
    for (state, event), following in table.items():
        label = event.value if isinstance(event, str) else event.name.lower().replace("_", " ")
        lines.append(f"    {state.value} --> {following.value}: {label}")
    return "\n".join(lines) + "\n"


DIAGRAMS = {
    "member": _diagram(states.TRANSITIONS, states.State.OUTSIDE),
    "group": _diagram(group_states.TRANSITIONS, group_states.GroupState.EMPTY),
}
"""Name of a diagram in the page → its Mermaid text."""


def drawn(text: str) -> str:
    """Return the page *text* with new diagrams."""
    for name, diagram in DIAGRAMS.items():
        pattern = rf"(<!-- diagram: {name} -->\n```mermaid\n).*?(```\n)"
        text, count = re.subn(pattern, rf"\g<1>{diagram}\g<2>", text, flags=re.DOTALL)
        assert count == 1, f"{PAGE.name} has {count} diagrams called {name}"
    return text


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
