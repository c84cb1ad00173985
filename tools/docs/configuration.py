"""Writes docs/configuration.md from the options in ``pyklient.config``.

``python -m tools.docs.configuration`` writes the file; a test compares it.
"""

import ssl
from dataclasses import Field, fields
from typing import Any

from pyklient.config import ClientConfig, ConsumerConfig, ProducerConfig
from tools.repository import ROOT

__all__ = ["TARGET", "page"]

TARGET = ROOT / "docs" / "configuration.md"

_HEAD = """\
# Configuration

Options are keyword arguments of the clients. They have Kafka's names, with underscores instead of dots.
Names with dots are accepted too, with values as text or not:
`Producer(**{"bootstrap.servers": "one:9092", "acks": "1"})`.
On the command line, give options as `-X name=value` or as lines of a `--config` file.

A ConfigurationError is raised for an unknown option, a value out of range, and two options that contradict
each other. It says what to write instead. A name with dots that only another Kafka client knows is ignored,
and a line in the log says so.

For type checkers, the TypedDicts `pyklient.ProducerOptions`, `ConsumerOptions`, `AdminOptions` and
`ReadOptions` describe the keyword arguments.

This page is written from the options in `pyklient/config/` by `python -m tools.docs.configuration`; a test
compares the two.
"""

_INTRODUCTIONS = {
    ClientConfig: (
        "Every client",
        "`Producer`, `ConsumerConnector`, `SimpleConsumer`, `Admin` and `read` have these options:",
    ),
    ProducerConfig: ("Producer", "`Producer` has all options above, and:"),
    ConsumerConfig: ("ConsumerConnector", "`ConsumerConnector` has all options of the first table, and:"),
}


def page() -> str:
    """Return the whole page."""
    parts = [_HEAD]
    inherited: set[str] = set()
    for config, (title, introduction) in _INTRODUCTIONS.items():
        rows = [_row(item) for item in fields(config) if item.name not in inherited]
        inherited |= {item.name for item in fields(ClientConfig)}
        parts.append(
            f"## {title}\n\n{introduction}\n\n"
            "| option | default | takes | meaning |\n| --- | --- | --- | --- |\n" + "\n".join(rows) + "\n"
        )
    return "\n".join(parts)


def _row(item: "Field[Any]") -> str:
    doc = item.metadata["doc"].replace("|", "\\|")
    return f"| `{item.name}` | {_default(item)} | {_takes(item)} | {doc} |"


def _default(item: "Field[Any]") -> str:
    if item.default is None:
        return "none"
    large = type(item.default) is int and item.default >= 10_000
    return f"`{item.default:_}`" if large else f"`{item.default!r}`"


def _takes(item: "Field[Any]") -> str:
    facts = item.metadata
    if facts["choices"] is not None:
        return ", ".join(f"`{choice!r}`" for choice in facts["choices"])
    if facts["at_least"] is not None:
        return f"{facts['at_least']:_} and up"
    if facts["secret"]:
        return "text, never shown"
    if "bool" in str(item.type):
        return "`True`, `False`"
    if "SSLContext" in str(item.type) or item.type is ssl.SSLContext:
        return "`ssl.SSLContext`"
    return "a function or an object" if "partitioner" in item.name or "encoder" in item.name else "text"


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
