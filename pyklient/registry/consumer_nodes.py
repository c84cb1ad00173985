"""Parses and writes the content of a group's ZooKeeper nodes: its members, the owners of partitions, and its
committed offsets.

Kafka 0.8 and later write the node of a member as JSON. Kafka 0.7 wrote a map from topics to numbers of
streams. For a topic filter, it wrote ``*<streams>*<expression>`` (read the topics that match the expression)
or ``!<streams>!<expression>`` (read the topics that do not match).
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyklient.registry import paths
from pyklient.registry.node_content import NodeFields, garbled, text_content, whole_number
from pyklient.registry.subscription_patterns import BLACK_LIST, STATIC, WHITE_LIST

__all__ = [
    "ConsumerNode",
    "consumer_content",
    "offset_content",
    "parse_consumer",
    "parse_offset",
    "parse_owner",
]

_MOST_STREAMS: Final = 10_000
_NOT_IN_NAMES: Final = re.compile("[/\x00-\x1f\x7f-\x9f\ud800-\udfff]")
"""Matches characters that ZooKeeper does not allow in the name of a node. Therefore no topic has them in its
name."""
_OLDEST_FILTER: Final = re.compile(r"([*!])([0-9]{1,9})([*!])(.*)", re.DOTALL)
_OLDEST_PATTERNS: Final = {"*": WHITE_LIST, "!": BLACK_LIST}


@dataclass(frozen=True, slots=True)
class ConsumerNode:
    """The content of the ZooKeeper node of a group member.

    ``subscription`` maps each topic to the number of streams that read it. If ``pattern`` is WHITE_LIST or
    BLACK_LIST, ``subscription`` has one entry, whose key is a regular expression. ``version`` is 0 for the
    format of Kafka 0.7.
    """

    subscription: Mapping[str, int]
    pattern: str = STATIC
    timestamp_ms: int = -1
    version: int = 1


def parse_consumer(group_id: str, consumer_id: str, content: bytes) -> ConsumerNode:
    """Parse the content of a group member's ZooKeeper node, in any version of its format. Raises
    NodeContentError if *content* is malformed."""
    path = paths.consumer(group_id, consumer_id)
    text = text_content(path, content)
    if (match := _OLDEST_FILTER.fullmatch(text)) and match[1] == match[3]:
        pattern = _OLDEST_PATTERNS[match[1]]
        return ConsumerNode(_streams(path, content, {match[4]: int(match[2])}, pattern), pattern, version=0)
    found = NodeFields(path, content)
    if not {"version", "subscription", "pattern"} & set(json.loads(text)):
        return ConsumerNode(_streams(path, content, json.loads(text), STATIC), version=0)
    subscription = found.numbers_by_text("subscription")
    pattern = found.text("pattern")
    if pattern not in (STATIC, WHITE_LIST, BLACK_LIST):
        found.wrong(f"'pattern' is {pattern!r}, and not one of {STATIC}, {WHITE_LIST}, {BLACK_LIST}")
    if pattern != STATIC and len(subscription) > 1:
        found.wrong("'subscription' of a pattern has more than one entry")
    return ConsumerNode(
        _streams(path, content, subscription, pattern),
        pattern if subscription else STATIC,
        timestamp_ms=found.number("timestamp", -1),
        version=found.number("version", 1),
    )


def consumer_content(consumer: ConsumerNode) -> bytes:
    """Return the content of a group member's ZooKeeper node, as the Scala consumer of Kafka 0.8 and later
    writes it."""
    escaped = ",".join(f"{_scala_text(key)}:{count}" for key, count in consumer.subscription.items())
    return (
        f'{{"version":1,"subscription":{{{escaped}}},"pattern":"{consumer.pattern}",'
        f'"timestamp":"{consumer.timestamp_ms}"}}'
    ).encode()


def parse_owner(path: str, content: bytes) -> str:
    """Return the id of the thread (one stream of a consumer) that owns a partition. *content* is the content
    of the ZooKeeper node at *path*. The id has the form ``<consumer id>-<number>``. Raises NodeContentError
    if *content* is malformed."""
    owner = text_content(path, content)
    if not re.fullmatch(r".*-[0-9]{1,9}", owner):
        why = "the content is not the id of a consumer's thread, <consumer id>-<number>"
        raise garbled(path, content, why)
    return owner


def parse_offset(path: str, content: bytes) -> int:
    """Return the committed offset from *content*, the content of the ZooKeeper node at *path*. Raises
    NodeContentError if *content* is not a number."""
    return whole_number(path, content)


def offset_content(offset: int) -> bytes:
    """Return the content of the ZooKeeper node for a committed offset."""
    return str(offset).encode()


def _streams(path: str, content: bytes, subscription: Mapping[str, object], pattern: str) -> dict[str, int]:
    """Return *subscription* if its topic names and its numbers of streams are valid. Otherwise raise
    NodeContentError."""
    streams = {}
    for key, count in subscription.items():
        if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= _MOST_STREAMS:
            raise garbled(
                path, content, f"the number of streams of {key!r} must be from 1 to {_MOST_STREAMS:,}"
            )
        if pattern == STATIC and (key in ("", ".", "..") or _NOT_IN_NAMES.search(key)):
            raise garbled(path, content, f"{key!r} is not the name of a topic")
        streams[key] = count
    return streams


def _scala_text(text: str) -> str:
    """Return *text* as a JSON string with a backslash before each slash, as Scala's consumer writes it."""
    return json.dumps(text, ensure_ascii=False).replace("/", r"\/")
