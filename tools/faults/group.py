"""A group whose members join and leave while records are produced, and a check of what it commits."""

import itertools
import random
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from pyklient import Admin, ClosedError, ConsumerConnector, ConsumerRebalanceListener, KafkaError, Producer
from tests.servers.process import wait_until

__all__ = ["PARTITIONS", "CommitWatch", "Flow", "Group", "Place", "skipped", "wait_for_all"]

PARTITIONS = 6
_MOST_MEMBERS = 4
_RATE = 500
_WORK = 0.001
_PATIENCE = 120.0

Place = tuple[int, int]
"""A partition and an offset."""


class Flow:
    """Sends numbers 0, 1, 2, … to each of the PARTITIONS partitions of *topic* until :meth:`stop`."""

    def __init__(self, bootstrap: str, topic: str, **options: Any) -> None:
        self._producer, self._topic = Producer(bootstrap, **options), topic
        self._stopped = threading.Event()
        self._sent = 0
        self._thread = threading.Thread(target=self._run, name="flow", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(PARTITIONS / _RATE):
            for partition in range(PARTITIONS):
                self._producer.send(self._topic, b"%d" % self._sent, partition=partition)
            self._sent += 1

    def stop(self) -> set[Place]:
        """Stop, and return the partition and offset of each record. Raises DeliveryError if one is lost."""
        self._stopped.set()
        self._thread.join()
        self._producer.flush(timeout=_PATIENCE)
        self._producer.close()
        return {(partition, offset) for partition in range(PARTITIONS) for offset in range(self._sent)}


class Group:
    """The members of a group, each of which reads in a thread of its own."""

    def __init__(self, bootstrap: str, group: str, topic: str, **options: Any) -> None:
        self._bootstrap, self._group, self._topic = bootstrap, group, topic
        self._options = options
        self._serial = itertools.count(1)
        self._members: list[tuple[ConsumerConnector, threading.Thread]] = []
        self.handed_out: list[Place] = []
        self.errors: list[str] = []

    def join(self, listener: ConsumerRebalanceListener | None = None, **options: Any) -> None:
        """Let a new member join and read. *options* are its own, besides those of the group."""
        name = f"member-{next(self._serial)}"
        member = ConsumerConnector(
            self._bootstrap, group_id=self._group, client_id=name, **{**self._options, **options}
        )
        if listener:
            member.set_rebalance_listener(listener)
        thread = threading.Thread(target=self._read, args=(member, name), name=name, daemon=True)
        thread.start()
        self._members.append((member, thread))

    def leave(self, number: int) -> None:
        """Close the connector of the member with index *number*."""
        member, thread = self._members.pop(number)
        member.close()
        thread.join(_PATIENCE)
        assert not thread.is_alive(), "the loop continues although its connector is closed"

    def change(self, dice: random.Random) -> None:
        """Let a member join or leave, at random. The group has between one and four members."""
        if not self._members or (len(self._members) < _MOST_MEMBERS and dice.random() < 0.5):
            self.join()
        else:
            self.leave(dice.randrange(len(self._members)))
            if not self._members:
                self.join()

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
                    time.sleep(_WORK)  # the message is being processed and must not be committed yet
                    self.handed_out.append((message.partition, message.offset))
        except KafkaError as error:
            self.errors.append(f"{name}: {error!r}")


class CommitWatch:
    """Checks all the time that the group has committed no offset beyond the records that it received."""

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
        """Check once more, and stop."""
        self._stopped.set()
        self._thread.join()
        self._look()
        self._admin.close()

    def _run(self) -> None:
        try:
            while not self._stopped.wait(0.05):
                self._look()
        except KafkaError as error:
            self.problems.append(f"the committed offsets could not be fetched: {error!r}")

    def _look(self) -> None:
        committed = {
            where.partition: stored.offset for where, stored in self._admin.group_offsets(self._group).items()
        }
        # The loop notes a record before it asks for the next one, which is when the record may be committed.
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


def wait_for_all(group: Group, stored: set[Place]) -> list[str]:
    """Wait until the group has received all *stored* records. Return problems if that takes too long."""
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
    """Return a problem for each partition with *stored* records that are not in *handed_out*."""
    missing: Mapping[int, list[int]] = defaultdict(list)
    for partition, offset in sorted(stored.difference(handed_out)):
        missing[partition].append(offset)
    return [
        f"partition {partition}: {len(offsets)} records were not handed out, first {offsets[0]}"
        for partition, offsets in missing.items()
    ]
