"""A group that changes from range to cooperative-sticky, member by member, while records flow."""

from collections import Counter
from collections.abc import Collection

import pytest

from pyklient import ConsumerRebalanceListener, TopicPartition
from tests.servers.process import wait_until
from tests.system.flowing_group import FlowingGroup
from tests.system.reading import wait_assigned
from tools.faults.group import PARTITIONS, Group

pytestmark = pytest.mark.slow

_MEMBERS = 3
_STEPS = (["range"], ["cooperative-sticky", "range"], ["cooperative-sticky"])
"""The assignors of the members in the beginning, after the first restart, and after the second."""
_FLOW = 100
"""The number of records of a partition that take longer than a member takes to learn of a rebalance."""


class _SlowListener(ConsumerRebalanceListener):
    """Holds up a rebalance until *_FLOW* records of each partition that stays with its member have come."""

    def __init__(self, members: Group) -> None:
        self._members = members
        self._given_back: set[int] = set()
        self.problems: list[str] = []
        self.rebalances = 0
        """The number of rebalances that were held up."""
        self.holds = True

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self._given_back = {partition.partition for partition in partitions}
        if not (self._given_back and self.holds):
            return
        self.rebalances += 1
        staying = set(range(PARTITIONS)) - self._given_back
        begin = len(self._members.handed_out)

        def flowed() -> bool:
            records = Counter(partition for partition, _ in self._members.handed_out[begin:])
            return all(records[partition] >= _FLOW for partition in staying)

        try:
            wait_until(flowed, 20, f"{_FLOW} records of partitions {staying}")
        except TimeoutError as error:
            self.problems.append(f"while {self._given_back} are given back: {error}")

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        if kept := self._given_back & {partition.partition for partition in partitions}:
            self.problems.append(f"{kept} were given back and assigned again in a rebalance")
        self._given_back = set()


def test_a_group_changes_its_assignor_under_load_and_partitions_that_stay_flow_on(
    bootstrap: str, flowing_group: FlowingGroup
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
    listeners = [_SlowListener(members) for _ in range(_MEMBERS)]
    for listener in listeners:  # the members of the last step are replaced, the first first
        members.join(listener, partition_assignment_strategy=_STEPS[-1])
        wait_assigned(bootstrap, name, _MEMBERS + 1, PARTITIONS)
        members.leave(0)
        wait_assigned(bootstrap, name, _MEMBERS, PARTITIONS)
    members.join(partition_assignment_strategy=_STEPS[-1])
    wait_assigned(bootstrap, name, _MEMBERS + 1, PARTITIONS)
    for listener in listeners:
        listener.holds = False  # all members leave, and no more records flow
    flowing_group.check_each_record_once()
    assert [problem for listener in listeners for problem in listener.problems] == []
    assert any(listener.rebalances for listener in listeners)
