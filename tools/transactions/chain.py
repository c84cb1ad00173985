"""A chain of stages: their processes, what their journals tell, and a comparison of the last topic with the
messages that were sent to the first."""

import itertools
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from pyklient import Admin, TopicPartition
from tests.servers.process import wait_until
from tools.repository import ROOT
from tools.transactions.arrivals import arrived, arrived_for_librdkafka, differences
from tools.transactions.stage import Job

__all__ = ["PARTITIONS", "Chain", "Entry", "Program"]

PARTITIONS: Final = 6
_PATIENCE: Final = 60.0
_STALLED: Final = 90.0
"""The number of seconds without a new message in the last topic after which the chain counts as stalled."""
_POLL: Final = 0.003
_TAIL: Final = 8_192


class Entry(NamedTuple):
    """A line in the journal of a stage."""

    word: str
    number: int = 0
    more: str = ""


class Program:
    """A process that does *job*. It gets a journal of its own in *directory*, named *name*."""

    def __init__(self, job: Job, directory: Path, name: str) -> None:
        self._path = directory / name
        self.job = job._replace(journal=str(self._path))
        command = [sys.executable, "-m", "tools.transactions.stage", json.dumps(self.job._asdict())]
        self.process = subprocess.Popen(command, cwd=ROOT)

    def entries(self) -> list[Entry]:
        """Return all lines of the journal."""
        return list(_parsed(self._path.read_text(encoding="utf-8"))) if self._path.exists() else []

    def last(self) -> Entry:
        """Return the last line of the journal."""
        if not self._path.exists():
            return Entry("")
        with self._path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(size - _TAIL, 0))
            return list(_parsed(file.read().decode("utf-8", "replace")))[-1:][0] if size else Entry("")

    def wait(self, word: str) -> Entry:
        """Wait until the last line of the journal has *word*. Return the line."""
        deadline = time.monotonic() + _PATIENCE
        while (found := self.last()).word != word:
            if self.process.poll() is not None:
                raise RuntimeError(f"{self._path.name} has ended by itself: {found}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self._path.name} has written no {word} in {_PATIENCE:g} s: {found}")
            time.sleep(_POLL)
        return found

    def committed(self) -> int:
        """Return the number of transactions that the journal calls committed."""
        return sum(each.word == "committed" for each in self.entries())

    def wait_committed(self) -> None:
        """Wait until this program has committed one more transaction."""
        before = self.committed()
        wait_until(lambda: self.committed() > before, _PATIENCE, f"a commit of {self._path.name}")

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """Send SIGKILL, and wait for the end of the process."""
        self.process.kill()
        self.process.wait()

    def end(self) -> int:
        """Send SIGTERM. Return the exit status."""
        self.process.terminate()
        return self.process.wait(_PATIENCE)


def _parsed(text: str) -> Iterator[Entry]:
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        number, _, more = rest.partition(" ")
        if number.isdigit():
            yield Entry(word, int(number), more)


class Chain:
    """Stages that connect to *bootstrap*, and the topics before and after them, which begin with *name*.

    This object itself connects to *direct*. There is a stage for each item of *max_blocks_ms*, its
    ``max_block_ms``.
    """

    def __init__(
        self,
        direct: str,
        bootstrap: str,
        name: str,
        directory: Path,
        session_timeout_ms: int,
        max_blocks_ms: Sequence[int],
    ) -> None:
        stages = len(max_blocks_ms)
        self.topics = [f"{name}-{number}" for number in range(stages + 1)]
        self._direct, self._directory = direct, directory
        self._serial = itertools.count(1)
        with Admin(direct, default_api_timeout_ms=60_000) as admin:
            for topic in self.topics:
                admin.create_topic(topic, PARTITIONS, -1)
        self._jobs = [
            Job(
                bootstrap,
                source,
                target,
                f"{source}-group",
                f"{source}-id",
                f">{number}",
                session_timeout_ms,
                max_blocks_ms[number],
                "",
            )
            for number, (source, target) in enumerate(itertools.pairwise(self.topics))
        ]
        self.started: list[Program] = []
        """All programs, also those that have ended."""
        self.programs = [self.start(number) for number in range(stages)]
        """The present program of each stage."""

    def start(self, number: int, transactional_id: str = "") -> Program:
        """Start a program for the stage *number*, with the id of that stage if none is given."""
        job = self._jobs[number]
        if transactional_id:
            job = job._replace(transactional_id=transactional_id)
        program = Program(job, self._directory, f"{job.group}.{next(self._serial)}")
        self.started.append(program)
        return program

    def finish(self, sent: Mapping[int, int]) -> list[str]:
        """Wait until all messages have arrived, end the programs, and return what is wrong. *sent* has the
        number of messages of each key."""
        self._await(sum(sent.values()))
        problems = []
        for program in self.programs:
            if status := program.end():
                last = program.last()
                problems.append(f"{program.job.group} has ended with the exit status {status}: {last}")
        for topic in self.topics[1:]:
            problems += self._still_open(topic)
        marks = "".join(job.mark for job in self._jobs)
        wanted = {
            b"key-%d" % key: [b"%d%s" % (each, marks.encode()) for each in range(count)]
            for key, count in sent.items()
        }
        last_topic = self.topics[-1]
        problems += differences(wanted, arrived(self._direct, last_topic))
        if not problems:
            found = arrived_for_librdkafka(self._direct, last_topic, PARTITIONS)
            problems = [f"read by librdkafka: {each}" for each in differences(wanted, found)]
        return problems

    def _await(self, messages: int) -> None:
        """Wait until the last topic holds *messages* messages, or gets no more of them."""
        most, deadline = -1, time.monotonic() + _STALLED
        while most < messages and time.monotonic() < deadline:
            found = sum(map(len, arrived(self._direct, self.topics[-1]).values()))
            if found > most:
                most, deadline = found, time.monotonic() + _STALLED
            time.sleep(0.5)

    def _still_open(self, topic: str) -> list[str]:
        """Wait until no transaction is open in *topic*. Return the open ones if they do not end."""
        partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        deadline = time.monotonic() + _PATIENCE
        with Admin(self._direct) as admin:
            while (found := admin.open_transactions(partitions)) and time.monotonic() < deadline:
                time.sleep(0.2)
        return [f"a transaction is still open: {each}" for each in found]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for program in self.started:
            program.kill()
