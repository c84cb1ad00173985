"""A group that changes from range to cooperative-sticky, member by member, while records flow."""

import random
import time

import pytest

from tests.system.flowing_group import FlowingGroup
from tests.system.reading import wait_assigned
from tools.faults.group import PARTITIONS

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
    bootstrap: str, flowing_group: FlowingGroup, capsys: pytest.CaptureFixture[str]
) -> None:
    name, members = flowing_group.name, flowing_group.members
    for _ in range(_MEMBERS):
        members.join(partition_assignment_strategy=_STEPS[0])
    wait_assigned(bootstrap, name, _MEMBERS, PARTITIONS)
    for strategy in _STEPS[1:]:
        for _ in range(_MEMBERS):
            members.leave(0)
            members.join(partition_assignment_strategy=strategy)
            wait_assigned(bootstrap, name, _MEMBERS, PARTITIONS)
    began = time.monotonic()
    for _ in range(2):  # now members join and leave, and nobody gives back what it keeps
        members.join(partition_assignment_strategy=_STEPS[-1])
        wait_assigned(bootstrap, name, _MEMBERS + 1, PARTITIONS)
        members.leave(random.Random(began).randrange(_MEMBERS))
        wait_assigned(bootstrap, name, _MEMBERS, PARTITIONS)
    pause = _longest_pause(members.arrivals, began)
    flowing_group.check_each_record_once()
    with capsys.disabled():
        print(f"\nlongest pause of a partition that stays: {pause * 1000:.0f} ms")
    assert pause < 1
