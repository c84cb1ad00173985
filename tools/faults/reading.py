"""A group whose members join and leave while records are produced, and faults between it and its brokers."""

import itertools
import random
import time
from collections.abc import Callable
from typing import Any

from pyklient.protocol.messages import (
    ApiVersionsRequest,
    FetchRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from pyklient.protocol.schema import ApiMessage
from tests.servers.topics import create_topic
from tools.faults.group import PARTITIONS, CommitWatch, Flow, Group, wait_for_all
from tools.faults.plan import seeded_plan
from tools.faults.proxy import FaultProxy

__all__ = ["read_through_faults"]

_GAPS: dict[type[ApiMessage], tuple[int, int]] = {
    ApiVersionsRequest: (5, 40),
    FetchRequest: (20, 200),
    FindCoordinatorRequest: (3, 12),
    HeartbeatRequest: (10, 60),
    JoinGroupRequest: (3, 12),
    LeaveGroupRequest: (1, 3),
    ListOffsetsRequest: (2, 6),
    MetadataRequest: (3, 15),
    OffsetCommitRequest: (10, 80),
    OffsetFetchRequest: (3, 12),
    SyncGroupRequest: (3, 12),
}
"""The least and greatest number of requests of a kind between two faults."""
_LONGEST = 2.5
_OPTIONS: dict[str, Any] = {
    "auto_offset_reset": "earliest",
    "auto_commit_interval_ms": 100,
    "heartbeat_interval_ms": 200,
    "session_timeout_ms": 3_000,
    "rebalance_timeout_ms": 5_000,
    "request_timeout_ms": 1_500,  # less than the longest time for which bytes are held back
    "reconnect_backoff_max_ms": 200,
    "fetch_max_wait_ms": 100,
}
_BETWEEN_CHANGES = (0.3, 2.0)


def read_through_faults(
    bootstrap: str, topic: str, *, seed: int, faults: int, say: Callable[[str], None]
) -> list[str]:
    """Create *topic*, and let members of a group read it until *faults* faults have happened.

    Return the problems. The group must receive each record at least once, must commit no offset before it has
    received all records below it, and no loop may end. *say* is called with each fault.
    """
    create_topic(bootstrap, topic, PARTITIONS)
    dice = random.Random(f"{seed}/members")
    with (
        FaultProxy(bootstrap, seeded_plan(seed, _GAPS, _LONGEST), limit=faults) as proxy,
        Group(proxy.bootstrap_servers, topic, topic, **_OPTIONS) as group,
    ):
        watch, flow = CommitWatch(bootstrap, topic, group.handed_out), Flow(bootstrap, topic)
        told = changes = 0
        while told < faults and not group.errors:
            changes += 1
            group.change(dice)
            time.sleep(dice.uniform(*_BETWEEN_CHANGES))
            for happened in itertools.islice(proxy.happened, told, None):
                told += 1
                say(f"{told}/{faults} {happened}")
        stored = flow.stop()
        found = wait_for_all(group, stored)
        watch.stop()
        found += group.errors + watch.problems[:5]
    say(
        f"{len(stored):,} records, {len(group.handed_out) - len(stored):,} of them handed out again, "
        f"{changes} members joined or left, {len(proxy.missed)} planned faults did not happen"
    )
    return [f"{each} (seed {seed})\n{proxy.report()}" for each in found]
