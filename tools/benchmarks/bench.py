"""Runs contenders on one broker, each in a process of its own, and checks what they say they have done."""

import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pyklient import Admin, SimpleConsumer
from tools.benchmarks.scenarios import CONFLUENT_SEND, Contender, Figure, Scenario
from tools.benchmarks.work import Job, Measured, values_for
from tools.repository import ROOT

__all__ = ["Bench", "Results", "check", "rotated", "run_job"]

_PARTITIONS = 4
_TRIAL_RECORDS = 500
_TIMEOUT = 300
_FIGURES: dict[Figure, Callable[[Measured], float]] = {
    "CPU": lambda run: run.cpu_per_record_us,
    "wall": lambda run: run.wall_per_record_us,
    "p99": lambda run: run.percentiles_ms["p99"],
}


@dataclass
class Results:
    """All runs of one scenario: a list a contender, one entry a round, in the order of the rounds."""

    scenario: Scenario
    runs: dict[str, list[Measured]]

    def median(self, name: str, figure: Callable[[Measured], float]) -> float:
        return statistics.median(figure(run) for run in self.runs[name])

    def ratios(self, theirs: str, ours: str, figure: Figure) -> list[float]:
        """What *theirs* takes for each that *ours* takes, round by round."""
        take = _FIGURES[figure]
        return [
            take(their) / take(our) for their, our in zip(self.runs[theirs], self.runs[ours], strict=True)
        ]


def run_job(job: Job, kernel: str) -> Measured:
    """One job in a process of its own. Raises RuntimeError when it fails."""
    environment = {**os.environ, "PYKLIENT_KERNEL": kernel}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # or what is imported late is compiled in every run
    done = subprocess.run(
        [sys.executable, "-m", "tools.benchmarks.clients", job.to_json()],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{job.client} failed at {job.task}:\n{done.stderr[-3000:]}")
    return Measured.from_json(done.stdout.strip().splitlines()[-1])


def check(job: Job, measured: Measured, stored: int) -> None:
    """Raises RuntimeError where *measured* is not what *job* asks for.

    *stored* is how many records the broker has of what was produced.
    """
    who = f"{job.client} at {job.task}"
    if measured.records < job.records:
        raise RuntimeError(f"{who}: {measured.records:,} of {job.records:,} records")
    if job.task.startswith("consume"):
        read, expected = measured.payload_bytes, measured.records * job.value_size
        is_exact = job.values == "random" and not job.field
        if is_exact and abs(read - expected) > expected / 1000:  # Java prints rounded megabytes
            raise RuntimeError(f"{who}: {read:,} bytes in {measured.records:,} records")
        return
    extra = 1 if job.task == "latency" else 0  # some open their connections with a record first
    if not job.records <= stored <= job.records + extra:
        raise RuntimeError(f"{who}: {stored:,} of {job.records:,} records are stored")


class Bench:
    """A broker, the topics made on it, and how many records there are for each that a contender names.

    Every run is checked: what a client says it has produced against the broker's offsets, what it has
    consumed by count and size. Raises RuntimeError where they differ.
    """

    def __init__(self, bootstrap_servers: str, scale: float = 1.0) -> None:
        self._servers = bootstrap_servers
        self._scale = scale
        self._admin = Admin(bootstrap_servers)
        self._simple = SimpleConsumer(bootstrap_servers)
        self._topics = 0
        self._sources: dict[Scenario, str] = {}
        self._mean_sizes: dict[Scenario, float] = {}

    def load(self, scenario: Scenario) -> None:
        """Make the topic that *scenario*'s contenders read, as long as the hungriest of them needs it."""
        if scenario.consumes:
            records = max(self._records(scenario, contender) for contender in scenario.contenders)
            job = self._job(scenario, CONFLUENT_SEND, self._new_topic(), records)
            self._check(job, run_job(job, CONFLUENT_SEND.kernel))
            self._sources[scenario] = job.topic
        if not scenario.consumes:
            values = values_for(self._job(scenario, scenario.contenders[0], "", 0))
            self._mean_sizes[scenario] = statistics.fmean(map(len, values))

    def trial(self, scenario: Scenario, contender: Contender) -> Measured:
        """A run with few records, which counts for nothing: what does not work, fails at once."""
        return self._run(scenario, contender, min(_TRIAL_RECORDS, self._records(scenario, contender)))

    def run(self, scenario: Scenario, contender: Contender) -> Measured:
        """A run that counts."""
        return self._run(scenario, contender, self._records(scenario, contender))

    def drop(self, scenario: Scenario) -> None:
        """*scenario* is over: what it read is needed no more."""
        if scenario in self._sources:
            self._admin.delete_topic(self._sources.pop(scenario))

    def close(self) -> None:
        self._simple.close()
        self._admin.close()

    def _records(self, scenario: Scenario, contender: Contender) -> int:
        return max(100, int(contender.records * scenario.share * self._scale))

    def _run(self, scenario: Scenario, contender: Contender, records: int) -> Measured:
        source = self._sources.get(scenario)
        topic = source or self._new_topic()
        job = self._job(scenario, contender, topic, records)
        measured = run_job(job, contender.kernel)
        self._check(job, measured)
        if not source:
            measured.payload_bytes = int(self._mean_sizes[scenario] * measured.records)
            self._admin.delete_topic(topic)
        return measured

    def _check(self, job: Job, measured: Measured) -> None:
        stored = 0
        if not job.task.startswith("consume"):
            ends = (self._simple.get_offsets_before(job.topic, number)[0] for number in range(_PARTITIONS))
            stored = sum(ends)
        check(job, measured, stored)

    def _new_topic(self) -> str:
        self._topics += 1
        name = f"bench-{self._topics}"
        self._admin.create_topic(name, partitions=_PARTITIONS)
        return name

    def _job(self, scenario: Scenario, contender: Contender, topic: str, records: int) -> Job:
        return Job(
            client=contender.client,
            task=contender.task,
            bootstrap_servers=self._servers,
            topic=topic,
            records=records,
            value_size=scenario.value_size,
            values=scenario.values,
            compression=scenario.compression,
            field=scenario.field,
            rate=scenario.rate,
        )


def rotated(contenders: Sequence[Contender], number: int) -> list[Contender]:
    """*contenders* in another order each round, so that none always follows the same one."""
    start = number * 3 % len(contenders)
    return [*contenders[start:], *contenders[:start]]
