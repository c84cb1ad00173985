"""Writes docs/configuration.md from the options in ``pyklient.config``.

``python -m tools.docs.configuration`` writes the file; a test compares it.
"""

import ssl
from dataclasses import Field, fields
from typing import Any

from pyklient.config import NOT_READ, ClientConfig, ConsumerConfig, ProducerConfig
from tools.repository import ROOT

__all__ = ["TARGET", "page"]

TARGET = ROOT / "docs" / "configuration.md"

_HEAD = """\
# Configuration

Options are keyword arguments of the clients. They have Kafka's names, with underscores instead of dots. The
clients also accept the names with dots, whose values may be texts. These two lines do the same:

```text
Producer("broker-1:9092", linger_ms=20, compression_type="zstd")
Producer(**{"bootstrap.servers": "broker-1:9092", "linger.ms": "20", "compression.type": "zstd"})
```

On the command line, give options as `-X name=value` or as lines of a `--config` file.

The name of an option gives the unit of its value: `_ms` is milliseconds, `_bytes` and `_size` are bytes.
In the tables, "not set" in the column "default" means that the option is None. "Only in pyklient" means
that Kafka's Java client does not have the option.

A client raises ConfigurationError if an option is unknown, if its value is out of range, or if two
options contradict each other. The message says what to write instead. A name with dots that only other
Kafka clients have is ignored, and a line in the log says so.

The TypedDicts `pyklient.ProducerOptions`, `ConsumerOptions`, `AdminOptions` and `ReadOptions` describe
the keyword arguments for type checkers.

This page is written from the options in `pyklient/config/` by `python -m tools.docs.configuration`; a test
compares the two.
"""

_INTRODUCTIONS = {
    ClientConfig: (
        "Every client",
        "`Producer`, `ConsumerConnector`, `read`, `SimpleConsumer` and `Admin` have these options:",
    ),
    ProducerConfig: ("Producer", "`Producer` has the options of the first table, and these:"),
    ConsumerConfig: (
        "ConsumerConnector",
        "`ConsumerConnector` has the options of the first table, and these. `read` has the same options, "
        f"except for {', '.join(f'`{name}`' for name in sorted(NOT_READ))}.",
    ),
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
            "| option | default | values | meaning |\n| --- | --- | --- | --- |\n" + "\n".join(rows) + "\n"
        )
    return "\n".join(parts)


def _row(item: "Field[Any]") -> str:
    doc = item.metadata["doc"].replace("|", "\\|")
    return f"| `{item.name}` | {_default(item)} | {_takes(item)} | {doc} |"


def _default(item: "Field[Any]") -> str:
    if item.default is None:
        return "not set"
    large = type(item.default) is int and item.default >= 10_000
    return f"`{item.default:_}`" if large else f"`{item.default!r}`"


def _takes(item: "Field[Any]") -> str:
    facts = item.metadata
    if facts["choices"] is not None:
        also = () if facts["also"] is None else (facts["also"][0],)
        return ", ".join(f"`{choice!r}`" for choice in (*facts["choices"], *also))
    if facts["at_least"] is not None:
        return f"{facts['at_least']:_} and up"
    if facts["secret"]:
        return "text, never shown"
    if "bool" in str(item.type):
        return "`True`, `False`"
    if "Assignor" in str(item.type):
        return "a name, an object, or a list of them"
    if "SSLContext" in str(item.type) or item.type is ssl.SSLContext:
        return "`ssl.SSLContext`"
    return "a function or an object" if "partitioner" in item.name or "encoder" in item.name else "text"


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
