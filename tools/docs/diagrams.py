"""Draws the state diagrams of the docs from the transition tables in the code.

``python -m tools.docs.diagrams`` writes them into the pages; a test compares them.
"""

import re
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import TypeVar

from pyklient.broker.groups import states as group_states
from pyklient.broker.transactions import states as transaction_states
from pyklient.consumer.group.classic import states
from pyklient.consumer.group.zookeeper import states as zookeeper_states
from pyklient.producer.transactions import states as producer_states
from tools.repository import ROOT

__all__ = ["DIAGRAMS", "drawn"]

_State = TypeVar("_State", bound=Enum)
_Event = TypeVar("_Event", bound=Enum)


def _diagram(table: Mapping[tuple[_State, _Event], _State], first: _State) -> str:
    lines = ["stateDiagram-v2", f"    [*] --> {first.value}"]
    for (state, event), following in table.items():
        label = event.value if isinstance(event, str) else event.name.lower().replace("_", " ")
        lines.append(f"    {state.value} --> {following.value}: {label}")
    return "\n".join(lines) + "\n"


DIAGRAMS = {
    ROOT / "docs" / "group-states.md": {
        "member": _diagram(states.TRANSITIONS, states.State.OUTSIDE),
        "group": _diagram(group_states.TRANSITIONS, group_states.GroupState.EMPTY),
    },
    ROOT / "docs" / "broker-transactions.md": {
        "transactional id": _diagram(
            transaction_states.TRANSITIONS, transaction_states.TransactionState.EMPTY
        ),
    },
    ROOT / "docs" / "transactions.md": {
        "transactional producer": _diagram(producer_states.TRANSITIONS, producer_states.State.NEW),
    },
    ROOT / "docs" / "zookeeper-rebalances.md": {
        "member of a ZooKeeper group": _diagram(zookeeper_states.TRANSITIONS, zookeeper_states.State.OUTSIDE),
    },
}
"""Page → name of a diagram in the page → its Mermaid text."""


def drawn(page: Path) -> str:
    """Return the text of *page* with new diagrams."""
    text = page.read_text(encoding="utf-8")
    for name, diagram in DIAGRAMS[page].items():
        pattern = rf"(<!-- diagram: {name} -->\n```mermaid\n).*?(```\n)"
        text, count = re.subn(pattern, rf"\g<1>{diagram}\g<2>", text, flags=re.DOTALL)
        assert count == 1, f"{page.name} has {count} diagrams called {name}"
    return text


if __name__ == "__main__":
    for page in DIAGRAMS:
        page.write_text(drawn(page), encoding="utf-8")
