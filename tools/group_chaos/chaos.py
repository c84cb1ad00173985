"""A group of many members, and the events that happen to it, chosen by seed."""

import itertools
import random
import threading
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack
from typing import Final, NamedTuple

from pyklient import Admin, TopicPartition
from tests.servers.process import wait_until
from tools.group_chaos.flow import Flow
from tools.group_chaos.hand_outs import HandOuts, OffsetsWatch
from tools.group_chaos.running_member import RunningMember

__all__ = ["Chaos", "Size"]

_PATIENCE: Final = 120.0
_DEFAULT_REPLICAS: Final = -1


class Size(NamedTuple):
    """The size of a group, and how fast it notices things."""

    members: int = 20
    topics: int = 4
    partitions: int = 50
    """The partitions of each topic."""
    interval: float = 0.5
    """The seconds between two records of a partition."""
    session_ms: int = 6_000
    slow: float = 9.0
    """The seconds for which a slow handler takes its time."""
    burst: int = 10_000
    """The records that a member may get in one batch."""
    between: tuple[float, float] = (0.5, 2.0)
    """The shortest and the longest time between two events, in seconds."""
    measured: int = 3
    """The deaths and the leaves of which the time until all partitions flow again is measured."""


class Chaos:
    """A group *name* with *assignor*, whose members read all topics that begin with *name*.

    *restart_coordinator* kills the group coordinator and starts it again. Without it, that event does not
    happen. *say* is called with each event.
    """

    def __init__(
        self,
        bootstrap: str,
        name: str,
        assignor: str,
        *,
        seed: int,
        size: Size,
        restart_coordinator: Callable[[str], None] | None = None,
        say: Callable[[str], None],
    ) -> None:
        self._bootstrap, self._name, self._assignor, self._size = bootstrap, name, assignor, size
        self._chance = random.Random(f"{seed}/{assignor}")
        self._restart_coordinator = restart_coordinator
        self._say = say
        self._serial = itertools.count(1)
        self._extra: list[str] = []
        self._joined: list[RunningMember] = []
        """All members, also those that have left or died."""
        self._members: list[RunningMember] = []
        self._timers: list[threading.Timer] = []
        self._hand_outs = HandOuts()
        self._flow = Flow(bootstrap, size.interval)
        self._admin = Admin(bootstrap, client_id="chaos", default_api_timeout_ms=60_000)
        self._stack = ExitStack()
        self.pauses: dict[str, float] = {}
        """The longest times, in seconds, until all partitions flowed again after a "death" and a "leave"."""
        self._events: dict[str, tuple[int, Callable[[], None]]] = {
            "join": (9, self._join),
            "leave": (3, self._leave),
            "kill": (3, self._kill),
            "stop": (3, self._stop),
            "slow handler": (2, self._slow),
            "batches": (2, self._change_form),
            "new partitions": (1, self._grow),
            "new topic": (1, self._create),
            "deleted topic": (1, self._delete),
        }
        if restart_coordinator is not None:
            self._events["coordinator"] = 1, lambda: restart_coordinator(name)

    def run(self, events: int) -> list[str]:
        """Let *events* events happen, and return the problems."""
        topics = [f"{self._name}-{number}" for number in range(self._size.topics)]
        for topic in topics:
            self._admin.create_topic(topic, self._size.partitions, _DEFAULT_REPLICAS)
            self._flow.add(topic, range(self._size.partitions))
        watch = OffsetsWatch(self._bootstrap, self._name)
        with self._stack:
            for _ in range(self._size.members):
                self._join()
            self._flow.start()
            self._await_all_flow()
            for number in range(1, events + 1):
                name = self._choose()
                self._say(f"{number}/{events} {name} ({len(self._members)} members)")
                self._events[name][1]()
                time.sleep(self._chance.uniform(*self._size.between))
            for timer in self._timers:
                timer.join()
            self._await_all_flow()
            while len(self._members) < self._size.members:
                self._join()
            self._await_all_flow()
            self._measure()
            counts = self._flow.stop()
            problems = self._await_all(counts)
            while self._members:
                self._members.pop().leave()
            watch.forget({where.topic for where in watch.committed()} - {where.topic for where in counts})
            watch.stop()
        committed = watch.committed()
        problems += watch.problems + self._hand_outs.again_after_commit(watch)
        problems += [
            f"{each}: {committed.get(each)} is committed, and {count} records are stored"
            for each, count in counts.items()
            if committed.get(each) != count
        ][:5]
        problems += [problem for member in self._joined for problem in member.problems]
        self._admin.close()
        return problems

    def _choose(self) -> str:
        running = sum(not each.stopped for each in self._members)
        possible = {
            name: weight
            for name, (weight, _) in self._events.items()
            if not (name == "join" and len(self._members) >= self._size.members)
            and not (name in ("leave", "kill", "stop") and running < 2)
            and not (name == "deleted topic" and not self._extra)
        }
        return self._chance.choices(list(possible), list(possible.values()))[0]

    def _any(self) -> RunningMember:
        return self._chance.choice([each for each in self._members if not each.stopped])

    def _join(self) -> None:
        name = f"m{next(self._serial)}"
        options = {
            "partition_assignment_strategy": self._assignor,
            "session_timeout_ms": self._size.session_ms,
        }
        member = RunningMember(
            self._bootstrap, self._name, f"{self._name}-.*", name, self._hand_outs, options
        )
        self._joined.append(member)
        self._members.append(self._stack.enter_context(member))

    def _leave(self) -> None:
        member = self._any()
        self._members.remove(member)
        member.leave()

    def _kill(self) -> None:
        member = self._any()
        self._members.remove(member)
        member.kill()

    def _stop(self) -> None:
        member = self._any()
        member.stopped = True
        member.pause()

        def wake() -> None:
            member.resume()
            member.stopped = False

        timer = threading.Timer(self._size.session_ms / 1000 + self._chance.uniform(1, 4), wake)
        timer.start()
        self._timers.append(timer)

    def _slow(self) -> None:
        self._any().tell(f"slow {self._size.slow}")

    def _change_form(self) -> None:
        """Let a member read batches, and give it a large one; or let it read single messages."""
        member, form = self._any(), self._chance.choice(("batches", "batches", "messages"))
        member.tell(form)
        if form == "batches" and (partitions := sorted(self._hand_outs.partitions_of(member.name))):
            self._flow.burst(self._chance.choice(partitions), self._size.burst)

    def _grow(self) -> None:
        topic = f"{self._name}-0"
        count = sum(each.topic == topic for each in self._flow.partitions)
        self._admin.create_partitions(topic, count + 1)
        self._flow.add(topic, range(count, count + 1))

    def _create(self) -> None:
        topic = f"{self._name}-extra{next(self._serial)}"
        self._admin.create_topic(topic, 2, _DEFAULT_REPLICAS)
        self._flow.add(topic, range(2))
        self._extra.append(topic)

    def _delete(self) -> None:
        topic = self._extra.pop(self._chance.randrange(len(self._extra)))
        self._flow.drop(topic)
        self._admin.delete_topic(topic)

    def _await_balance(self) -> None:
        """Wait until all members together own each partition, and each of them owns some."""
        wait_until(
            lambda: (
                all(each.owned for each in self._members)
                and sum(each.owned for each in self._members) == len(self._flow.partitions)
            ),
            _PATIENCE,
            "all partitions owned by all members",
        )

    def _await_all_flow(self) -> None:
        """Wait until a new record of each partition was handed out."""
        self._await_flow(self._flow.partitions, time.monotonic())

    def _await_flow(self, partitions: Collection[TopicPartition], began: float, gone: str = "") -> float:
        """Wait until each of *partitions* has a record that was handed out after the time *began* to another
        member than *gone*. Return the seconds from *began* to the last of these records."""
        while (at := self._hand_outs.first_after(partitions, began, gone)) is None:
            if time.monotonic() > began + _PATIENCE:
                first_after = self._hand_outs.first_after
                silent = [each for each in partitions if first_after([each], began, gone) is None]
                for member in self._members:
                    member.dump_threads()
                raise TimeoutError(f"{len(silent)} partitions do not flow: {', '.join(map(str, silent[:9]))}")
            time.sleep(0.05)
        return at - began

    def _measure(self) -> None:
        """Measure how long partitions of a member that dies, and of one that leaves, are not read."""
        self._flow.interval /= 2
        for _ in range(self._size.measured):
            for what, go in (("death", RunningMember.kill), ("leave", RunningMember.leave)):
                self._await_balance()
                self._await_all_flow()
                member = self._any()
                self._members.remove(member)
                partitions = self._hand_outs.partitions_of(member.name).intersection(self._flow.partitions)
                began = time.monotonic()
                go(member)
                took = self._await_flow(partitions, began, member.name)
                self.pauses[what] = max(took, self.pauses.get(what, 0.0))
                self._join()

    def _await_all(self, counts: dict[TopicPartition, int]) -> list[str]:
        try:
            wait_until(lambda: not self._hand_outs.missing(counts), _PATIENCE, "all records", poll=0.5)
        except TimeoutError:
            return self._hand_outs.missing(counts)[:5]
        return []
