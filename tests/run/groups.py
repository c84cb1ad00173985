"""Groups of tests that share a server, and the lanes in which several workers run them side by side.

Tests that use the same server, or Spark, form a group, and one worker runs the whole group: no other worker
starts the same server. All other tests are grouped by file. Each worker has a lane: the groups with servers
that it runs first. Files without a server go to the worker that is free. Which lane a group is in follows
from the names of all groups, so that each process finds the same answer by itself.
"""

from collections.abc import Collection, Iterable

import pytest

from tests.servers.kinds import KINDS
from tests.servers.pool import Use

__all__ = ["OWN_SERVERS", "SPARK", "group_of", "is_slow", "lanes", "seconds", "servers_of", "uses"]

SPARK = "spark"

OWN_SERVERS = {
    "kafka_cluster": "cluster",
    "newest_kafka": "kafka-4.3.1",
    "reference_broker": "reference",
    "oldest_kafka": "kafka-0.8.2.2",
    "zookeeper_kafka": "kafka-2.8.2",
    "secure_kafka": "secure",
}
"""The fixtures that represent one server each, with the server's name."""

_SECONDS = {
    "kafka-4.3.1": 370.0,
    SPARK: 330.0,
    "kafka-2.8.2": 310.0,
    "cluster": 140.0,
    "kafka-0.8.2.2": 105.0,
    "secure": 35.0,
    "kafka-0.10.2.2": 35.0,
    "tests/spark/cluster/test_cluster.py": 100.0,
    "tests/tools/test_benchmarks.py": 80.0,
    "tests/faults/test_each_fault.py": 45.0,
    "tests/docs/test_snippets.py": 35.0,
    "tests/faults/test_transactions.py": 30.0,
    "tests/kernel/test_kafka_bytes.py": 35.0,
    "tests/consumer/test_consumer_connector.py": 30.0,
    "tests/interop/test_fetch_sessions.py": 25.0,
    "tests/producer/accumulate/test_memory.py": 25.0,
    "tests/spark/test_wheel.py": 25.0,
}
"""About how long a group takes on two cores, as the report of a run tells, where a file's number of tests
does not tell it. It balances the lanes, and the longest begins first."""

_OF_A_TEST = 0.05


def servers_of(item: pytest.Item) -> tuple[str, ...]:
    """Return the names of the servers that *item* uses, Spark first."""
    fixtures = getattr(item, "fixturenames", ())
    callspec = getattr(item, "callspec", None)
    broker = callspec.params.get("any_broker") if callspec else None
    names = {broker, *(name for fixture, name in OWN_SERVERS.items() if fixture in fixtures)}
    names.update({SPARK} & set(fixtures), *(mark.args for mark in item.iter_markers("uses")))
    return tuple(name for name in (SPARK, *KINDS) if name in names)


def group_of(item: pytest.Item) -> str:
    """Return the name of *item*'s group: the first of its servers that takes long to start, or its file."""
    return next((name for name in servers_of(item) if is_slow(name)), item.nodeid.split("::")[0])


def seconds(group: str, tests: int) -> float:
    """Return about how many seconds *group* takes, with *tests* tests."""
    return _SECONDS.get(group, tests * _OF_A_TEST)


def lanes(groups: Collection[str], count: int) -> list[list[str]]:
    """Return those of *groups* that have servers, divided into *count* lanes, the longest group first."""
    found: list[list[str]] = [[] for _ in range(count)]
    taken = [0.0] * count
    for group in sorted(filter(is_slow, groups), key=lambda group: (-seconds(group, 1), group)):
        lane = taken.index(min(taken))
        found[lane].append(group)
        taken[lane] += seconds(group, 1)
    return found


def is_slow(group: str) -> bool:
    """Return True if *group* is named after a server that takes seconds to start."""
    return group == SPARK or (group in KINDS and KINDS[group].real)


def uses(items: Iterable[pytest.Item], worker: str | None, count: int) -> list[Use]:
    """Return those of *items* whose order is known, with their servers: the lane of *worker*, or all of them
    without a worker.

    *worker* is xdist's name for it ("gw0"), *count* the number of workers.
    """
    if worker is None:
        return [Use(item.nodeid, servers_of(item)) for item in items]
    members: dict[str, list[pytest.Item]] = {}
    for item in items:
        members.setdefault(group_of(item), []).append(item)
    number = int(worker.removeprefix("gw"))
    lane = (
        lanes(members.keys(), count)[number] if number < count else []
    )  # a later one replaces a crashed one
    return [Use(item.nodeid, servers_of(item)) for group in lane for item in members[group]]
