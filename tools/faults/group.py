"""A group whose members come and go while records flow, and what was handed out and committed meanwhile."""

import itertools
import random
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from pyklient import Admin, ClosedError, ConsumerConnector, KafkaError, Producer
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
    """Numbers 0, 1, 2, … that go to each of the PARTITIONS partitions of *topic* until :meth:`stop`."""

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
        """End it. Return where all records are stored. Raises DeliveryError if one is not."""
        self._stopped.set()
        self._thread.join()
        self._producer.flush(timeout=_PATIENCE)
        self._producer.close()
        return {(partition, offset) for partition in range(PARTITIONS) for offset in range(self._sent)}


class Group:
    """Members of one group, each with a loop in a thread of its own, which join and leave as told."""

    def __init__(self, bootstrap: str, group: str, topic: str, **options: Any) -> None:
        self._bootstrap, self._group, self._topic = bootstrap, group, topic
        self._options = options
        self._serial = itertools.count(1)
        self._members: list[tuple[ConsumerConnector, threading.Thread]] = []
        self.handed_out: list[Place] = []
        self.errors: list[str] = []

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

    def change(self, dice: random.Random) -> None:
        """A member joins or leaves, as *dice* say. There is one at least, and four at most."""
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
                    time.sleep(_WORK)  # the message is in hand meanwhile, and may not be committed
                    self.handed_out.append((message.partition, message.offset))
        except KafkaError as error:
            self.errors.append(f"{name}: {error!r}")


class CommitWatch:
    """Looks all the time whether the group has committed what nobody was handed."""

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


def wait_for_all(group: Group, stored: set[Place]) -> list[str]:
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
