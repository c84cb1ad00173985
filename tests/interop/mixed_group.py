"""A ZooKeeper group with members of pyklient and of Scala's high-level consumer, to which things happen while
records flow."""

import contextlib
import itertools
import random
import re
import threading
from collections import Counter
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from pyklient import Producer, TopicPartition
from pyklient.consumer.group.zookeeper.thread_assignment import ZOOKEEPER_ASSIGNORS
from pyklient.consumer.group.zookeeper.thread_ids import ThreadId
from tests.servers.process import wait_until
from tests.servers.scala_consumer import ScalaConsumer
from tests.servers.zookeeper import numbered_children
from tests.system.members import Member

__all__ = ["EVENTS", "MixedGroup"]

EVENTS: Final = ("leave pyklient", "leave scala", "kill pyklient", "kill scala")
"""The ways in which a member goes. After each of them, a new member joins."""

_SESSION_MS: Final = 2000
_BACKOFF_MS: Final = 200
_ATTEMPTS: Final = 50
_COMMIT_MS: Final = 200
_STAMP: Final = re.compile(r'"timestamp":"[0-9]{13}"')


@dataclass
class _Running:
    """A member: its name in the group, its streams and its process."""

    name: str
    streams: int
    program: Member | ScalaConsumer

    @property
    def kind(self) -> str:
        return "scala" if isinstance(self.program, ScalaConsumer) else "pyklient"


class MixedGroup:
    """The group *group* on *topic*, which has *partitions* partitions. Records flow inside the ``with``
    block.

    ``repeatable`` are the offsets of each partition that may be handed out twice: those that a killed member
    had not committed; and those that Scala's consumer hands out in the middle of a rebalance. ``unprinted``
    are the records that a killed member of Scala's may have committed before its program printed them.
    """

    def __init__(
        self,
        bootstrap: str,
        zookeeper: str,
        group: str,
        topic: str,
        partitions: int,
        chance: random.Random,
        assignor: str = "range",
    ) -> None:
        self._bootstrap = bootstrap
        self._zookeeper = zookeeper
        self._group = group
        self._topic = topic
        self._partitions = partitions
        self._chance = chance
        self._assignor = assignor
        self.members: list[_Running] = []
        self._gone: list[_Running] = []
        self.repeatable: dict[int, set[int]] = {number: set() for number in range(partitions)}
        self.unprinted: set[tuple[int, int]] = set()
        self._scalas: dict[int, int] = {}
        """The committed offset of each partition that a member of Scala's read when the present rebalance
        began."""
        self._registry = KazooClient(zookeeper)
        self._stack = contextlib.ExitStack()
        self._names = itertools.count(1)
        self._flowing = threading.Event()
        self._produced = 0
        self._producer = threading.Thread(target=self._produce, daemon=True)

    def __enter__(self) -> Self:
        self._registry.start()
        self._flowing.set()
        self._producer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._flowing.clear()
        self._producer.join(30)
        self._stack.__exit__(kind, error, trace)
        self._registry.stop()
        self._registry.close()

    def join(self, kind: str, streams: int | None = None) -> None:
        """Start a member, and wait until the group is what it should be."""
        self.start(kind, streams)
        self.check()

    def start(self, kind: str, streams: int | None = None) -> None:
        """Start a member."""
        self._note_scalas()
        name = f"{self._chance.choice('abcdefgh')}{next(self._names)}"
        count = streams or self._chance.randint(1, 2)
        program: Member | ScalaConsumer
        if kind == "scala":
            program = ScalaConsumer(
                self._zookeeper,
                self._group,
                self._topic,
                streams=count,
                name=name,
                zookeeper_session_timeout_ms=_SESSION_MS,
                rebalance_backoff_ms=_BACKOFF_MS,
                rebalance_max_retries=_ATTEMPTS,
                auto_commit_interval_ms=_COMMIT_MS,
                partition_assignment_strategy=self._assignor,
            )
        else:
            program = Member(
                self._bootstrap,
                self._group,
                [self._topic],
                streams=count,
                zookeeper=self._zookeeper,
                coordination="zookeeper",
                consumer_id=name,
                zookeeper_session_timeout_ms=_SESSION_MS,
                rebalance_backoff_ms=_BACKOFF_MS,
                rebalance_max_retries=_ATTEMPTS,
                auto_commit_interval_ms=_COMMIT_MS,
                partition_assignment_strategy=self._assignor,
            )
        self._stack.enter_context(program)
        self.members.append(_Running(name, count, program))

    def remove(self, event: str) -> None:
        """Make one member go, as *event* says, and wait until the group is what it should be."""
        how, kind = event.split()
        gone = self._chance.choice([each for each in self.members if each.kind == kind])
        self._note_scalas()
        self.members.remove(gone)
        self._gone.append(gone)
        if how == "leave":
            gone.program.leave()
        else:
            owned = self._owned_by(gone)
            gone.program.kill()
            self._note(gone, owned)
        self.check()

    def check(self) -> None:
        """Wait until the partitions are assigned as the algorithm says. Then compare all nodes with those
        that Scala's consumer writes."""
        expected = self._expected()

        def settled() -> bool:
            # A member that was woken late rebalances once more: it releases its partitions and takes them
            # again.
            with contextlib.suppress(NoNodeError):
                if self._owners() == expected:
                    self._compare_nodes()
                    return True
            return False

        try:
            wait_until(settled, 60, "partitions owned as they should be")
        except TimeoutError as error:
            raise TimeoutError(f"{error}\nexpected {expected}\nfound    {self._owners()}") from None
        for number, committed in self._scalas.items():
            self.repeatable[number].update(range(committed, self._produced))
        self._scalas.clear()

    def _compare_nodes(self) -> None:
        """Compare the nodes of the group with those that Scala's consumer writes. Raises NoNodeError if a
        node goes away meanwhile."""
        root = f"/consumers/{self._group}"
        assert sorted(self._registry.get_children(root)) == ["ids", "offsets", "owners"]
        assert self._registry.get_children(f"{root}/owners") == [self._topic]
        registrations = {}
        sessions = {}
        for name in self._registry.get_children(f"{root}/ids"):
            content, stat = self._registry.get(f"{root}/ids/{name}")
            registrations[name] = _STAMP.sub('"timestamp":""', content.decode())
            sessions[name] = stat.owner_session_id
        # Some of these were written by Scala's members, so this is what Scala's consumer writes.
        assert registrations == {
            f"{self._group}_{each.name}": self.registration(each.streams) for each in self.members
        }
        for number in range(self._partitions):
            owner, stat = self._registry.get(f"{root}/owners/{self._topic}/{number}")
            assert stat.owner_session_id == sessions[owner.decode().rpartition("-")[0]] is not None
        for name in self._registry.get_children(f"{root}/offsets/{self._topic}"):
            content, stat = self._registry.get(f"{root}/offsets/{self._topic}/{name}")
            assert content == b"%d" % int(content)
            assert stat.owner_session_id is None

    def registration(self, streams: int) -> str:
        """Return what Scala's consumer writes about itself, without the time."""
        return (
            f'{{"version":1,"subscription":{{"{self._topic}":{streams}}},"pattern":"static","timestamp":""}}'
        )

    def finish(self) -> None:
        """Stop the records, wait until all are read, and let all members leave. Each record must have been
        handed out: once, or more often if it is repeatable. All must be committed."""
        self._flowing.clear()
        self._producer.join(30)
        everything = {(number, at) for number in range(self._partitions) for at in range(self._produced)}
        try:
            wait_until(
                lambda: everything <= self.unprinted | set(self._handed()), 60, "all records handed out"
            )
        except TimeoutError as error:
            missing = sorted(everything - self.unprinted - set(self._handed()))
            raise TimeoutError(f"{error}: {missing[:20]}") from None
        while self.members:
            self._note_scalas()
            gone = self.members.pop()
            self._gone.append(gone)
            gone.program.leave()
            if self.members:
                self.check()
        counts = Counter(self._handed())
        assert everything - self.unprinted <= set(counts) <= everything
        twice = [where for where, count in counts.items() if count > 1]
        assert [where for where in twice if where[1] not in self.repeatable[where[0]]] == []
        assert self._committed() == dict.fromkeys(range(self._partitions), self._produced)
        root = f"/consumers/{self._group}"
        assert self._registry.get_children(f"{root}/ids") == []
        assert self._registry.get_children(f"{root}/owners/{self._topic}") == []

    def _produce(self) -> None:
        with Producer(self._bootstrap) as producer:
            while self._flowing.is_set():
                for number in range(self._partitions):
                    producer.send(self._topic, b"%d" % self._produced, partition=number)
                self._produced += 1
                threading.Event().wait(0.02)

    def _expected(self) -> dict[int, str]:
        threads = [
            ThreadId(f"{self._group}_{each.name}", stream)
            for each in self.members
            for stream in range(each.streams)
        ]
        assigned = ZOOKEEPER_ASSIGNORS[self._assignor](
            {self._topic: threads}, {self._topic: range(self._partitions)}
        )
        return {
            number: str(assigned[TopicPartition(self._topic, number)]) for number in range(self._partitions)
        }

    def _owners(self) -> dict[int, str]:
        return {number: content.decode() for number, content in self._numbered("owners").items()}

    def _committed(self) -> dict[int, int]:
        return {number: int(content) for number, content in self._numbered("offsets").items()}

    def _numbered(self, what: str) -> dict[int, bytes]:
        """Return the content of the nodes of all partitions below *what*."""
        return numbered_children(self._registry, f"/consumers/{self._group}/{what}/{self._topic}")

    def _handed(self) -> list[tuple[int, int]]:
        return [where for each in (*self.members, *self._gone) for where in list(each.program.messages)]

    def _note_scalas(self) -> None:
        """Note where the records begin that Scala's members may hand out twice in the rebalance that comes
        next: what they have not committed now, and what they hand out until the rebalance is over."""
        committed = self._committed()
        for number, thread in self._owners().items():
            scala = [each for each in self.members if each.kind == "scala"]
            if thread.rpartition("-")[0] in {f"{self._group}_{each.name}" for each in scala}:
                self._scalas.setdefault(number, committed.get(number, 0))

    def _owned_by(self, member: _Running) -> list[int]:
        """Return the partitions that *member* owns."""
        name = f"{self._group}_{member.name}"
        return [number for number, thread in self._owners().items() if thread.rpartition("-")[0] == name]

    def _note(self, killed: _Running, owned: list[int]) -> None:
        """Note what *killed*, which owned the partitions *owned*, had handed out and not committed.

        Scala's consumer commits a message as soon as it has handed it out. So its program may be killed after
        the commit, and before it has printed this message.
        """
        committed = self._committed()
        for number, offset in killed.program.messages:
            if offset >= committed.get(number, 0):
                self.repeatable[number].add(offset)
        if killed.kind == "scala":
            self.unprinted.update((number, committed[number] - 1) for number in owned if number in committed)
