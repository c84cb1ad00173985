"""Kills processes of a job that stores numbers, and checks that each is stored as often as promised."""

import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from json import loads
from pathlib import Path

from tests.servers.process import wait_until
from tests.servers.reaper import Reaper
from tests.servers.server import Server
from tests.servers.topics import create_topic, stored_records
from tools.spark.chaos.feed import Feed
from tools.spark.chaos.job_process import Job
from tools.spark.chaos.killer import VICTIMS, Killer

__all__ = ["Kills", "Stored"]

_PARTITIONS = 3
_PATIENCE = 600.0
_LONGEST_WAIT = 1.5


@dataclass
class Stored:
    """The number of copies of each number in every place. The numbers sent are those below ``sent``."""

    sent: int
    source: Counter[int] = field(default_factory=Counter)
    copy: Counter[int] = field(default_factory=Counter)
    copy_without_duplicates: Counter[int] = field(default_factory=Counter)
    exactly_once: defaultdict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))

    @property
    def duplicates(self) -> int:
        """The number of duplicates in the copied topic."""
        return self.copy.total() - len(self.copy)

    def problems(self) -> list[str]:
        """Return a line for each broken promise."""
        once = {
            "source topic": self.source,
            "topic without duplicates": self.copy_without_duplicates,
            **self.exactly_once,
        }
        found = []
        for name, numbers in {**once, "topic": self.copy}.items():
            if lost := set(range(self.sent)) - numbers.keys():
                found.append(f"{name}: {len(lost)} of {self.sent} numbers are lost: {sorted(lost)[:5]}")
            if others := numbers.keys() - set(range(self.sent)):
                found.append(f"{name}: {len(others)} numbers that nobody sent: {sorted(others)[:5]}")
        for name, numbers in once.items():
            if doubled := sorted(number for number, count in numbers.items() if count > 1):
                found.append(f"{name}: {len(doubled)} numbers are there more than once: {doubled[:5]}")
        return found


class Kills:
    """A job, its broker, and the kills. *say* is called with a line about each event."""

    def __init__(
        self,
        broker: Server,
        directory: Path,
        reaper: Reaper,
        *,
        name: str,
        seed: int,
        rate: int = 1000,
        say: Callable[[str], None],
    ) -> None:
        self._broker, self._home, self._say = broker, directory, say
        self._random = random.Random(seed)
        self._bootstrap = broker.bootstrap_servers
        self._source, self._copy = f"{name}-source", f"{name}-copy"
        for topic in (self._source, self._copy):
            create_topic(self._bootstrap, topic, _PARTITIONS)
        directory.mkdir(parents=True, exist_ok=True)
        self.job = Job(
            directory,
            reaper,
            {
                "bootstrap": self._bootstrap,
                "source": self._source,
                "copy": self._copy,
                "home": str(directory),
            },
        )
        self._killer = Killer(broker, self.job, self._random)
        self.killed = 0
        self._feed = Feed(self._bootstrap, self._source, _PARTITIONS, rate)

    def order(self, kills: int) -> list[str]:
        """Return the kinds of *kills* processes to kill, each kind about equally often."""
        found: list[str] = []
        while len(found) < kills:
            found += self._random.sample(VICTIMS, len(VICTIMS))
        return found[:kills]

    def run(self, victims: Sequence[str]) -> Stored:
        """Kill *victims* at random moments, and return what the job has stored when it has finished.

        After Ctrl-C, no more processes are killed, and the job finishes.
        """
        self.job.start()
        try:
            for number, victim in enumerate(victims, 1):
                began = time.monotonic()
                while (said := self._kill_after_progress(victim)) is None:
                    self._say(
                        f"{number}/{len(victims)}: there was no {victim}, as the job had ended; trying again"
                    )
                self.killed += 1
                self._say(f"{number}/{len(victims)}: {said}, after {time.monotonic() - began:.1f} s")
            self._wait_for_progress()
        except KeyboardInterrupt:
            self._say("no more kills; counting what is stored")
            self._broker.kill()  # it may be down at the moment
            self._broker.restart()
        return self._finish()

    def close(self) -> None:
        """Stop everything that still runs."""
        with suppress(AssertionError):
            self._feed.finish()
        self.job.close()

    def _kill_after_progress(self, victim: str) -> str | None:
        """Kill a process at a random moment. Return its name, or None if there was no such process."""
        self._wait_for_progress()
        time.sleep(self._random.uniform(0, _LONGEST_WAIT))
        return self._killer.kill(victim)

    def _wait_for_progress(self) -> None:
        """Wait until the job runs, and each query and load has stored more than before."""
        before = self._progress()

        def moved() -> bool:
            if self.job.status is not None:
                self._say(f"the job failed and is started again: {self._last_failure()}")
                self.job.start()
            return all(now > then for now, then in zip(self._progress(), before, strict=True))

        try:
            wait_until(moved, _PATIENCE, "progress everywhere", poll=0.2)
        except TimeoutError as error:
            raise TimeoutError(f"{error}: {before} → {self._progress()}\n{self.job.tail()}") from None

    def _progress(self) -> list[int]:
        """Return the last micro-batch that each query has committed, and the last load that is published."""
        return [
            max((int(each.name.removeprefix("load=")) for each in self._home.glob(pattern)), default=-1)
            for pattern in (
                "copy.checkpoint/commits/[0-9]*",
                "files.checkpoint/commits/[0-9]*",
                "loads/load=*",
            )
        ]

    def _last_failure(self) -> str:
        lines = [each for each in self.job.tail(400).splitlines() if "Error" in each or "FAILED" in each]
        return lines[-1][:200] if lines else self.job.tail(3)

    def _finish(self) -> Stored:
        sent = self._feed.finish()
        (self._home / "finish").touch()

        def ended() -> bool:
            if self.job.status not in (None, 0):
                self._say(f"the job failed and is started again: {self._last_failure()}")
                self.job.start()
            return self.job.status == 0

        wait_until(ended, _PATIENCE, "the end of the job", poll=0.2)
        stored = Stored(sent)
        stored.source.update(
            int(message.value() or b"-1") for message in stored_records(self._bootstrap, self._source)
        )
        rows: dict[object, int] = {}
        for message in stored_records(self._bootstrap, self._copy):
            number = int(message.value() or b"-1")
            stored.copy[number] += 1
            rows[tuple(message.headers() or ())] = number
        stored.copy_without_duplicates.update(rows.values())
        for name, numbers in loads((self._home / "stored.json").read_text()).items():
            stored.exactly_once[name] = Counter(numbers)
        return stored
