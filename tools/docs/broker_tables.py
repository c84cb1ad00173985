"""Writes the tables of docs/broker-options.md (options, topic settings, requests) from the broker's code.

``python -m tools.docs.broker_tables`` writes them into the page; a test compares them.
"""

import textwrap
from collections.abc import Sequence
from dataclasses import fields

from pyklient.broker.cluster.topic_configs import topic_config_defs
from pyklient.broker.config import BrokerConfig
from pyklient.broker.handlers.apis import HANDLERS
from tools.repository import ROOT

__all__ = ["PAGE", "filled"]

PAGE = ROOT / "docs" / "broker-options.md"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _number(value: object) -> str:
    return f"`{value:_}`" if type(value) is int and value >= 10_000 else f"`{value}`"


def _options() -> str:
    rows = [
        [
            f"`{item.name}`",
            _number(item.default),
            "`True`, `False`"
            if isinstance(item.default, bool)
            else "text"
            if item.metadata["at_least"] is None
            else f"{item.metadata['at_least']:,} to {_limit(item.metadata['at_most'])}",
            item.metadata["doc"],
            item.metadata["kafka_default"] or "",
        ]
        for item in fields(BrokerConfig)
    ]
    return _table(["option", "default", "values", "meaning", "Kafka's default, if different"], rows)


def _limit(value: int) -> str:
    return {2**31 - 1: "2³¹ - 1", 2**63 - 1: "2⁶³ - 1"}.get(value, f"{value:,}")


def _topic_settings() -> str:
    kinds = topic_config_defs(BrokerConfig())
    acted_upon = [[f"`{kind.name}`", kind.sentence.rstrip(".")] for kind in kinds if kind.sentence]
    names = ", ".join(f"`{kind.name}`" for kind in kinds if not kind.sentence)
    kept = textwrap.fill(
        f"The broker stores these settings and reports them to clients, but they have no effect: {names}.",
        120,
        break_on_hyphens=False,
    )
    return _table(["setting", "meaning"], acted_upon) + f"\n{kept}\n"


def _requests() -> str:
    rows = [
        [request.__name__.removesuffix("Request"), str(request.api_key), "{} to {}".format(*request.versions)]
        for request in sorted(HANDLERS, key=lambda request: request.api_key)
    ]
    return _table(["request", "key", "versions"], rows)


_TABLES = {"options": _options, "topic settings": _topic_settings, "requests": _requests}
"""Name of a table in the page → the function that writes it."""


def filled(text: str) -> str:
    """Return the page *text* with new tables."""
    for name, write in _TABLES.items():
        before, marker, after = text.partition(f"<!-- table: {name} -->\n")
        _, end, rest = after.partition("<!-- end -->\n")
        assert marker, f"{PAGE.name} has no table called {name}"
        assert end, f"{PAGE.name}: the table {name} does not end"
        text = f"{before}{marker}\n{write()}\n{end}{rest}"
    return text


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
