"""A group of many members, and the events that happen to it, chosen by seed."""

import itertools
import json
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final, NamedTuple

from pyklient import Admin, Producer, TopicPartition
from tests.servers.member_process import MemberProcess
from tests.servers.process import wait_until
from tools.group_chaos.hand_outs import HandOut, HandOuts, OffsetsWatch

__all__ = ["Chaos", "Size"]

_ROOT: Final = Path(__file__).parents[2]
_PATIENCE: Final = 120.0


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
    between: tuple[float, float] = (0.5, 2.0)
    """The shortest and the longest time between two events, in seconds."""


class _Member(MemberProcess):
    def __init__(self, name: str, hand_outs: HandOuts, job: dict[str, Any]) -> None:
        self.name = name
        self.stopped = False
        self._hand_outs = hand_outs
        super().__init__([sys.executable, "-m", "tools.group_chaos.member", json.dumps(job)], _ROOT)

    def take(self, line: str) -> None:
        at, topic, partition, offset = line.split()
        where = TopicPartition(topic, int(partition))
        self._hand_outs.add(where, int(offset), HandOut(float(at), self.name))

    def dump_threads(self) -> None:
        """Make the member log where its threads are."""
        self._process.send_signal(signal.SIGUSR1)
        time.sleep(0.5)

    def tell(self, line: str) -> None:
        """Send *line* to the member."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()


class _Flow:
    """Sends a record to each partition of the topics in ``counts``, again and again."""

    def __init__(self, bootstrap: str, interval: float) -> None:
        self._producer = Producer(bootstrap, delivery_timeout_ms=120_000)
        self._interval = interval
        self.counts: dict[TopicPartition, int] = {}
        self.lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="flow", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def add(self, topic: str, numbers: range) -> None:
        """Send records to more partitions."""
        with self.lock:
            self.counts.update({TopicPartition(topic, number): 0 for number in numbers})

    def drop(self, topic: str) -> None:
        """Send no more records to *topic*, and forget those that were sent."""
        with self.lock:
            for each in [each for each in self.counts if each.topic == topic]:
                del self.counts[each]
        self._producer.flush(timeout=_PATIENCE)

    def stop(self) -> dict[TopicPartition, int]:
        """Stop, and return the number of records of each partition. Raises DeliveryError if one is lost."""
        self._stopped.set()
        self._thread.join()
        self._producer.flush(timeout=_PATIENCE)
        self._producer.close()
        return self.counts

    def _run(self) -> None:
        while not self._stopped.wait(self._interval):
            with self.lock:
                for each in self.counts:
                    self._producer.send(each.topic, b"%d" % self.counts[each], partition=each.partition)
                    self.counts[each] += 1


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
        self._members: list[_Member] = []
        self._woken: list[HandOut] = []
        self._timers: list[threading.Timer] = []
        self._hand_outs = HandOuts()
        self._flow = _Flow(bootstrap, size.interval)
        self._admin = Admin(bootstrap, client_id="chaos", default_api_timeout_ms=60_000)
        self._stack = ExitStack()
        self.figures: dict[str, float] = {}
        """What was measured: names and numbers."""
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
            self._admin.create_topic(topic, partitions=self._size.partitions)
            self._flow.add(topic, range(self._size.partitions))
        watch = OffsetsWatch(self._bootstrap, self._name)
        with self._stack:
            for _ in range(self._size.members):
                self._join()
            self._flow.start()
            self._await_flow()
            for number in range(1, events + 1):
                name = self._choose()
                self._say(f"{number}/{events} {name} ({len(self._members)} members)")
                self._events[name][1]()
                time.sleep(self._chance.uniform(*self._size.between))
            for timer in self._timers:
                timer.join()
            self._await_flow()
            while len(self._members) < self._size.members:
                self._join()
            self._await_flow()
            self._measure()
            counts = self._flow.stop()
            problems = self._await_all(counts)
            while self._members:
                self._members.pop().leave()
            watch.forget({where.topic for where in watch.committed()} - {where.topic for where in counts})
            watch.stop()
        committed = watch.committed()
        problems += watch.problems + self._hand_outs.again_after_commit(watch, self._woken)
        problems += [
            f"{each}: {committed.get(each)} is committed, and {count} records are stored"
            for each, count in counts.items()
            if committed.get(each) != count
        ][:5]
        stale = [self._hand_outs.stale(each) for each in self._woken]
        self.figures["records of others that a woken member handed out, at most"] = max(stale, default=0)
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

    def _any(self) -> _Member:
        return self._chance.choice([each for each in self._members if not each.stopped])

    def _join(self) -> None:
        name = f"m{next(self._serial)}"
        options = {
            "client_id": name,
            "partition_assignment_strategy": self._assignor,
            "auto_offset_reset": "earliest",
            "auto_commit_interval_ms": 200,
            "heartbeat_interval_ms": 300,
            "session_timeout_ms": self._size.session_ms,
            "metadata_max_age_ms": 1_000,
            "fetch_max_wait_ms": 200,
        }
        job = {
            "bootstrap": self._bootstrap,
            "group": self._name,
            "pattern": f"{self._name}-.*",
            "options": options,
        }
        member = _Member(name, self._hand_outs, job)
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
            self._woken.append(HandOut(time.monotonic(), member.name))
            member.resume()
            member.stopped = False

        timer = threading.Timer(self._size.session_ms / 1000 + self._chance.uniform(1, 4), wake)
        timer.start()
        self._timers.append(timer)

    def _slow(self) -> None:
        self._any().tell(f"slow {self._size.slow}")

    def _change_form(self) -> None:
        self._any().tell(self._chance.choice(("batches", "batches", "messages")))

    def _grow(self) -> None:
        topic = f"{self._name}-0"
        with self._flow.lock:
            count = sum(each.topic == topic for each in self._flow.counts)
        self._admin.create_partitions(topic, count + 1)
        self._flow.add(topic, range(count, count + 1))

    def _create(self) -> None:
        topic = f"{self._name}-extra{next(self._serial)}"
        self._admin.create_topic(topic, partitions=2)
        self._flow.add(topic, range(2))
        self._extra.append(topic)

    def _delete(self) -> None:
        topic = self._extra.pop(self._chance.randrange(len(self._extra)))
        self._flow.drop(topic)
        self._admin.delete_topic(topic)

    def _await_flow(self, gone: str = "", partitions: Collection[TopicPartition] | None = None) -> float:
        """Wait until each of *partitions* (None: all) has a new record handed out to another member than
        *gone*. Return how long that took."""
        began = time.monotonic()
        if partitions is None:
            with self._flow.lock:
                partitions = list(self._flow.counts)
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
        for what, go in (("death", _Member.kill), ("clean leave", _Member.leave)):
            member = self._any()
            self._members.remove(member)
            partitions = self._hand_outs.partitions_of(member.name)
            go(member)
            self.figures[f"seconds until all partitions flow after a {what}"] = self._await_flow(
                member.name, partitions
            )
            self._await_flow()

    def _await_all(self, counts: dict[TopicPartition, int]) -> list[str]:
        try:
            wait_until(lambda: not self._hand_outs.missing(counts), _PATIENCE, "all records", poll=0.5)
        except TimeoutError:
            return self._hand_outs.missing(counts)[:5]
        return []
