"""The assignors that ship with pyklient, and those that a member offers to its group."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from pyklient.assignor import Assignor
from pyklient.config import ConsumerConfig
from pyklient.config.assignment_strategy import parse_strategy
from pyklient.consumer.group.assignors.range_assignor import RangeAssignor
from pyklient.consumer.group.assignors.round_robin_assignor import RoundRobinAssignor
from pyklient.consumer.group.assignors.sticky_assignor import CooperativeStickyAssignor, StickyAssignor

__all__ = ["ASSIGNORS", "offered_assignors"]

ASSIGNORS: Mapping[str, Assignor] = MappingProxyType(
    {
        each.name: each
        for each in (RangeAssignor(), RoundRobinAssignor(), StickyAssignor(), CooperativeStickyAssignor())
    }
)
"""The assignors by their names, which the option ``partition_assignment_strategy`` accepts."""


def offered_assignors(config: ConsumerConfig) -> Sequence[Assignor]:
    """Return the assignors that ``partition_assignment_strategy`` names, in order of preference."""
    return tuple(
        ASSIGNORS[each] if isinstance(each, str) else each
        for each in parse_strategy(config.partition_assignment_strategy)
    )
