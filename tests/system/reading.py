"""Reading topics in tests, always within a bound."""

import itertools
from typing import Any

from pyklient import ConsumerConnector, Message
from tests.servers.groups import assignments
from tests.servers.process import wait_until

__all__ = ["PATIENCE_MS", "connector", "read_group", "wait_assigned"]

PATIENCE_MS = 60_000


def connector(bootstrap: str, group: str, **options: Any) -> ConsumerConnector:
    """A connector that starts at the earliest offset and gives up after a while without messages."""
    defaults: dict[str, Any] = {
        "auto_offset_reset": "earliest",
        "consumer_timeout_ms": PATIENCE_MS,
        "session_timeout_ms": 6_000,
        "heartbeat_interval_ms": 500,
    }
    return ConsumerConnector(bootstrap, group_id=group, **{**defaults, **options})


def read_group(bootstrap: str, group: str, topic: str, count: int, **options: Any) -> list[Message]:
    """The next *count* messages of *topic* for *group*, committed."""
    with connector(bootstrap, group, **options) as reader:
        stream = reader.stream(topic)
        messages = list(itertools.islice(stream, count))
        assert len(messages) == count
        reader.commit_offsets()
    return messages


def wait_assigned(
    bootstrap: str, group: str, members: int, partitions: int, timeout: float = 60, poll: float = 0.1
) -> dict[str, set[int]]:
    """Client id → partitions, once *members* members of a stable group share *partitions* partitions."""
    found: dict[str, set[int]] = {}

    def settled() -> bool:
        nonlocal found
        found = assignments(bootstrap, group)
        shared = [number for numbers in found.values() for number in numbers]
        return len(found) == members and sorted(shared) == list(range(partitions))

    wait_until(settled, timeout, f"{members} members share {partitions} partitions of {group}", poll)
    return found
