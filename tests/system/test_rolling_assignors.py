"""A group that changes from range to cooperative-sticky, member by member, while records flow."""

import random
import time
from collections import Counter

import pytest

from tests.servers.fixtures import NewName, NewTopic
from tests.servers.groups import committed
from tests.servers.process import wait_until
from tests.system.reading import wait_assigned
from tools.faults.group import PARTITIONS, CommitWatch, Flow, Group, wait_for_all

pytestmark = pytest.mark.slow

_MEMBERS = 3
_STEPS = (["range"], ["cooperative-sticky", "range"], ["cooperative-sticky"])
"""The assignors of the members in the beginning, after the first restart, and after the second."""


def _longest_pause(arrivals: list[tuple[float, str, int]], since: float) -> float:
    """Return the longest time between two records of a partition that stayed with its member."""
    last: dict[int, tuple[float, str]] = {}
    longest = 0.0
    for at, member, partition in arrivals:
        before, owner = last.get(partition, (at, member))
        if owner == member and before >= since:
            longest = max(longest, at - before)
        last[partition] = at, member
    return longest


def test_a_group_changes_its_assignor_under_load_and_partitions_that_stay_flow_on(
    bootstrap: str, new_topic: NewTopic, new_name: NewName, capsys: pytest.CaptureFixture[str]
) -> None:
    topic, name = new_topic(partitions=PARTITIONS), new_name()
    with Group(
        bootstrap,
        name,
        topic,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=50,
        heartbeat_interval_ms=100,
        session_timeout_ms=6_000,
    ) as group:
        watch, flow = CommitWatch(bootstrap, name, group.handed_out), Flow(bootstrap, topic)
        for _ in range(_MEMBERS):
            group.join(partition_assignment_strategy=_STEPS[0])
        wait_assigned(bootstrap, name, _MEMBERS, PARTITIONS)
        for strategy in _STEPS[1:]:
            for _ in range(_MEMBERS):
                group.leave(0)
                group.join(partition_assignment_strategy=strategy)
                wait_assigned(bootstrap, name, _MEMBERS, PARTITIONS)
        began = time.monotonic()
        for _ in range(2):  # now members join and leave, and nobody gives back what it keeps
            group.join(partition_assignment_strategy=_STEPS[-1])
            wait_assigned(bootstrap, name, _MEMBERS + 1, PARTITIONS)
            group.leave(random.Random(began).randrange(_MEMBERS))
            wait_assigned(bootstrap, name, _MEMBERS, PARTITIONS)
        pause = _longest_pause(group.arrivals, began)
        stored = flow.stop()
        assert wait_for_all(group, stored) == []
        each = len(stored) // PARTITIONS
        wait_until(
            lambda: committed(bootstrap, name, topic) == dict.fromkeys(range(PARTITIONS), each),
            20,
            "everything committed",
        )
        watch.stop()
    assert group.errors == []
    assert watch.problems == []
    assert [place for place, times in Counter(group.handed_out).items() if times > 1] == []
    with capsys.disabled():
        print(f"\nlongest pause of a partition that stays: {pause * 1000:.0f} ms")
    assert pause < 1
