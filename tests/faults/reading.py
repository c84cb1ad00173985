"""A group whose members come and go while records flow, and fault after fault between it and its brokers."""

import itertools
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from pyklient import Admin, ClosedError, ConsumerConnector, KafkaError, Producer
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
from tests.faults.plan import seeded_plan
from tests.faults.proxy import FaultProxy
from tests.servers.process import wait_until
from tests.servers.topics import create_topic

__all__ = ["CommitWatch", "Group", "skipped", "read_through_faults"]

_PARTITIONS = 6
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
"""So many requests of a kind lie between two faults of that kind."""
_LONGEST = 2.5
_OPTIONS: dict[str, Any] = {
    "auto_offset_reset": "earliest",
    "auto_commit_interval_ms": 100,
    "heartbeat_interval_ms": 200,
    "session_timeout_ms": 3_000,
    "rebalance_timeout_ms": 5_000,
    "request_timeout_ms": 1_500,  # less than the longest time for which bytes are held
    "reconnect_backoff_max_ms": 200,
    "fetch_max_wait_ms": 100,
}
_MOST_MEMBERS = 4
_BETWEEN_CHANGES = (0.3, 2.0)
_RATE = 500
_PATIENCE = 120.0

Place = tuple[int, int]
"""A partition and an offset."""


class Flow:
    """Records that go to all partitions of *topic*, without the proxy, until :meth:`stop`."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._producer, self._topic = Producer(bootstrap), topic
        self._stopped = threading.Event()
        self._sent = 0
        self._thread = threading.Thread(target=self._run, name="flow", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(_PARTITIONS / _RATE):
            for partition in range(_PARTITIONS):
                self._producer.send(self._topic, b"%d" % self._sent, partition=partition)
            self._sent += 1

    def stop(self) -> set[Place]:
        """End it. Return where all records are stored."""
        self._stopped.set()
        self._thread.join()
        self._producer.flush(timeout=_PATIENCE)
        self._producer.close()
        return {(partition, offset) for partition in range(_PARTITIONS) for offset in range(self._sent)}


class Group:
    """Members of one group, each with a loop in a thread of its own, which join and leave as told."""

    def __init__(self, bootstrap: str, group: str, topic: str, **options: Any) -> None:
        self._bootstrap, self._group, self._topic = bootstrap, group, topic
        self._options = {**_OPTIONS, **options}
        self._serial = itertools.count(1)
        self._members: list[tuple[ConsumerConnector, threading.Thread]] = []
        self.handed_out: list[Place] = []
        self.errors: list[str] = []

    @property
    def size(self) -> int:
        return len(self._members)

    def join(self) -> None:
        """A new member starts to read."""
        name = f"member-{next(self._serial)}"
        member = ConsumerConnector(self._bootstrap, group_id=self._group, client_id=name, **self._options)
        thread = threading.Thread(target=self._read, args=(member, name), name=name, daemon=True)
        thread.start()
        self._members.append((member, thread))

    def leave(self, number: int) -> None:
        """The *number*-th member closes its connector."""
        member, thread = self._members.pop(number)
        member.close()
        thread.join(_PATIENCE)
        assert not thread.is_alive(), "a loop goes on though its connector is closed"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._members:
            self.leave(0)

    def _read(self, member: ConsumerConnector, name: str) -> None:
        try:
            with suppress(ClosedError):  # it leaves before it has joined
                for message in member.stream(self._topic):
                    self.handed_out.append((message.partition, message.offset))
        except KafkaError as error:
            self.errors.append(f"{name}: {error!r}")


class CommitWatch:
    """Looks all the time, without the proxy, whether the group has committed what nobody was handed."""

    def __init__(self, bootstrap: str, group: str, handed_out: list[Place]) -> None:
        self._admin, self._group, self._handed_out = Admin(bootstrap), group, handed_out
        self._known: defaultdict[int, set[int]] = defaultdict(set)
        self._complete: defaultdict[int, int] = defaultdict(int)
        self._read = 0
        self._stopped = threading.Event()
        self.problems: list[str] = []
        self._thread = threading.Thread(target=self._run, name="commit-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Look once more, and end."""
        self._stopped.set()
        self._thread.join()
        self._look()
        self._admin.close()

    def _run(self) -> None:
        try:
            while not self._stopped.wait(0.05):
                self._look()
        except KafkaError as error:
            self.problems.append(f"committed offsets cannot be asked for: {error!r}")

    def _look(self) -> None:
        committed = {
            where.partition: stored.offset for where, stored in self._admin.group_offsets(self._group).items()
        }
        # A record is noted before the loop asks for the next one, and committed after that.
        for partition, offset in itertools.islice(self._handed_out, self._read, None):
            self._known[partition].add(offset)
            self._read += 1
        for partition, offset in committed.items():
            while self._complete[partition] in self._known[partition]:
                self._complete[partition] += 1
            if offset > self._complete[partition]:
                self.problems.append(
                    f"partition {partition}: {offset} is committed, and {self._complete[partition]} "
                    "has not been handed out"
                )


def read_through_faults(
    bootstrap: str, topic: str, *, seed: int, faults: int, say: Callable[[str], None]
) -> list[str]:
    """Create *topic*; have members of a group read it until *faults* faults have happened.

    Return what is wrong then. Each record must have been handed out once at least, no offset may have been
    committed before all records below it were handed out, and no loop may have ended. *say* is told of each
    fault.
    """
    create_topic(bootstrap, topic, _PARTITIONS)
    dice = random.Random(f"{seed}/members")
    with (
        FaultProxy(bootstrap, seeded_plan(seed, _GAPS, _LONGEST), limit=faults) as proxy,
        Group(proxy.bootstrap_servers, topic, topic) as group,
    ):
        watch, flow = CommitWatch(bootstrap, topic, group.handed_out), Flow(bootstrap, topic)
        told = changes = 0
        while told < faults and not group.errors:
            changes += 1
            if group.size <= 1 or (group.size < _MOST_MEMBERS and dice.random() < 0.5):
                group.join()
            else:
                group.leave(dice.randrange(group.size))
            time.sleep(dice.uniform(*_BETWEEN_CHANGES))
            for happened in itertools.islice(proxy.happened, told, None):
                told += 1
                say(f"{told}/{faults} {happened}")
        stored = flow.stop()
        found = _late(group, stored)
        watch.stop()
        found += group.errors + watch.problems[:5]
    say(
        f"{len(stored):,} records, {len(group.handed_out) - len(stored):,} of them handed out again, "
        f"{changes} members joined or left, {len(proxy.missed)} planned faults did not happen"
    )
    return [f"{each} (seed {seed})\n{proxy.report()}" for each in found]


def _late(group: Group, stored: set[Place]) -> list[str]:
    """Wait until all of *stored* has been handed out. Return what has not after a long time."""
    try:
        wait_until(
            lambda: len(group.handed_out) >= len(stored) and stored <= set(group.handed_out),
            _PATIENCE,
            "all records",
            poll=0.5,
        )
    except TimeoutError:
        return skipped(stored, group.handed_out)
    return []


def skipped(stored: set[Place], handed_out: list[Place]) -> list[str]:
    """Which of *stored* are not in *handed_out*, by partition."""
    missing: Mapping[int, list[int]] = defaultdict(list)
    for partition, offset in sorted(stored.difference(handed_out)):
        missing[partition].append(offset)
    return [
        f"partition {partition}: {len(offsets)} records were not handed out, first {offsets[0]}"
        for partition, offsets in missing.items()
    ]
