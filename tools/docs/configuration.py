"""Writes docs/configuration.md from the options in ``pyklient.config``.

``python -m tools.docs.configuration`` writes the file; a test compares it.
"""

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import Field, fields
from typing import Any

from pyklient.config import NOT_READ, ClientConfig, ConsumerConfig, ProducerConfig
from tools.repository import ROOT

__all__ = ["TARGET", "page"]

TARGET = ROOT / "docs" / "configuration.md"

_WIDTH = 120

_HEAD = """\
# Configuration

This page lists the options of `Producer`, `ConsumerConnector`, `read` and `Admin`. Other pages list those of
[Spark](spark-options.md), of the [reference broker](broker-options.md) and of the
[classic clients](properties.md).

Options are keyword arguments of the clients. They have Kafka's names, with underscores instead of dots. You
can also pass an option under Kafka's name with dots. Its value may then be a string. These two lines do the
same:

```text
Producer("broker-1:9092", linger_ms=20, compression_type="zstd")
Producer(**{"bootstrap.servers": "broker-1:9092", "linger.ms": "20", "compression.type": "zstd"})
```

On the command line, give options as `-X name=value`, or write them into a file and name it with `--config`.

In the tables:

- Options whose names end in `_ms` are in milliseconds.
- "Not set" as the default means that the option is None.
- "Never shown" means that the value of the option never appears in logs and error messages.
- "Only in pyklient" means that Kafka's Java client does not have the option.

If an option is unknown, if its value is out of range, or if two options contradict each other, the client
raises a `ConfigurationError`, which says what to write instead. If you pass an option with
dots that only other Kafka clients have, the client ignores the option, and logs this.

For type checkers, the TypedDicts `pyklient.ProducerOptions`, `ConsumerOptions`, `AdminOptions` and
`ReadOptions` describe the keyword arguments.

The tables are generated from the code, and a test checks that they are up to date.
"""

_READING = "Fetching and reading"

_INTRODUCTIONS = {
    ClientConfig: (
        "Every client",
        "`Producer`, `ConsumerConnector`, `read`, `SimpleConsumer` and `Admin` have these options.",
    ),
    ProducerConfig: ("Producer", "`Producer` has the options of every client, and these:"),
    ConsumerConfig: (
        "ConsumerConnector",
        "`ConsumerConnector` has the options of every client, and those in the tables below. `read` joins "
        "no group, so it uses only the options of every client, and those in the last table.",
    ),
}

_SECTIONS: dict[Any, dict[str, tuple[str, ...]]] = {
    ClientConfig: {
        "ZooKeeper": ("zookeeper",),
        "TLS and SASL": ("security_", "sasl_", "ssl_"),
        "Connections and calls": ("",),
    },
    ProducerConfig: {"": ("",)},
    ConsumerConfig: {
        _READING: (
            *(
                "isolation_",
                "exclude_",
                "fetch_",
                "max_partition_",
                "prefetch_",
                "queued_",
                "check_",
                "shallow",
            ),
            *("max_decompressed_", "on_corrupt", "consumer_timeout_"),
        ),
        "Groups that ZooKeeper coordinates": ("rebalance_max_", "rebalance_backoff_", "consumer_id"),
        "Offsets": ("auto_", "enable_auto_", "offset_store", "offsets_", "dual_"),
        "Groups": ("",),
    },
}
"""For each kind of client, the titles of its tables, and the beginnings of the names of the options in each
table. An option is in the first table for which its name has one of the beginnings. The page shows the tables
in the reverse order."""


def page() -> str:
    """Return the whole page."""
    parts = [_HEAD]
    inherited: set[str] = set()
    for config, (title, introduction) in _INTRODUCTIONS.items():
        own = [item for item in fields(config) if item.name not in inherited]
        inherited |= {item.name for item in fields(ClientConfig)}
        parts.append(f"## {title}\n\n{textwrap.fill(introduction, _WIDTH)}\n")
        parts += _tables(_SECTIONS[config], own)
    return "\n".join(parts)


def _tables(sections: Mapping[str, tuple[str, ...]], items: "Sequence[Field[Any]]") -> Iterator[str]:
    """Yield the tables of *items*, each under its title."""
    section_of = {
        item.name: next(title for title, beginnings in sections.items() if item.name.startswith(beginnings))
        for item in items
    }
    for title in reversed(list(sections)):
        rows = [_row(item, title) for item in items if section_of[item.name] == title]
        head = f"### {title}\n\n" if title else ""
        yield (
            f"{head}| option | default | values | meaning |\n| --- | --- | --- | --- |\n"
            + "\n".join(rows)
            + "\n"
        )


_OPTION = re.compile(r"(?<![\w.])(?:[a-z0-9]+(?:_[a-z0-9]+)+\b(?!:)|(?:acks|coordination|retries)(?= is\b))")
"""The names of options in a text: those with underscores, and some words that ``is`` follows."""


def _row(item: "Field[Any]", section: str) -> str:
    doc = _OPTION.sub(r"`\g<0>`", item.metadata["doc"].replace("|", "\\|"))
    if section == _READING and item.name in NOT_READ:
        doc += " (`read` does not have this option.)"
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
    if "CorruptRecords" in str(item.type):
        return "`'raise'`, `'skip'`, or a function"
    if item.name == "bootstrap_servers":
        return "text or a list"
    if "SSLContext" in str(item.type):
        return "`ssl.SSLContext`"
    if item.name == "offset_store":
        return "an object"
    return "a function or an object" if "partitioner" in item.name or "encoder" in item.name else "text"


if __name__ == "__main__":
    TARGET.write_text(page(), encoding="utf-8")
