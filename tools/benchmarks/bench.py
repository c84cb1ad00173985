"""Runs contenders, each in its own process, and checks their results."""

import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import repeat

from pyklient import Admin
from pyklient.protocol.messages import ProduceRequest
from tools.benchmarks.scenarios import CONFLUENT_SEND, Contender, Figure, Scenario
from tools.benchmarks.work import Job, Measured, values_for
from tools.faults.plan import Action, Fault, FaultPlan, Place
from tools.faults.proxy import FaultProxy
from tools.repository import ROOT
from tools.scaling.cluster import TOPIC, Layout
from tools.scaling.measurements import cluster_of

__all__ = ["Bench", "Results", "check", "rotated", "run_job"]

_PARTITIONS = 4
_TRIAL_RECORDS = 500
_FEWEST_RECORDS = 100
_LOADING_LINGER_MS = 1_000
_LARGEST_BATCH = "2097152"
_HELD_SECONDS = 0.02
_TIMEOUT = 300
_FIGURES: dict[Figure, Callable[[Measured], float]] = {
    "CPU": lambda run: run.cpu_per_record_us,
    "wall": lambda run: run.wall_per_record_us,
    "p50": lambda run: run.percentiles_ms["p50"],
    "p99": lambda run: run.percentiles_ms["p99"],
}


@dataclass
class Results:
    """All runs of one scenario: for each contender a list with one entry for each round, in order."""

    scenario: Scenario
    runs: dict[str, list[Measured]]

    def median(self, name: str, figure: Callable[[Measured], float]) -> float:
        return statistics.median(figure(run) for run in self.runs[name])

    def ratios(self, theirs: str, ours: str, figure: Figure) -> list[float]:
        """Return the cost of *theirs* divided by the cost of *ours*, round by round."""
        take = _FIGURES[figure]
        return [
            take(their) / take(our) for their, our in zip(self.runs[theirs], self.runs[ours], strict=True)
        ]


def run_job(job: Job, kernel: str) -> Measured:
    """Run one job in its own process. Raises RuntimeError if it fails."""
    environment = {**os.environ, "PYKLIENT_KERNEL": kernel}
    # Otherwise modules that are imported late would be compiled in every run.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
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
    """Raise RuntimeError if *measured* does not fit *job*.

    *stored* is the number of produced records that the broker has stored.
    """
    who = f"{job.client} at {job.task}"
    if measured.records < job.records:
        raise RuntimeError(f"{who}: {measured.records:,} of {job.records:,} records")
    if job.task.startswith("mirror"):
        if stored < job.records:
            raise RuntimeError(f"{who}: {stored:,} of {job.records:,} records are stored")
        return
    if job.task.startswith("consume"):
        read, expected = measured.payload_bytes, measured.records * job.value_size
        is_exact = job.values == "random" and not job.field
        if is_exact and abs(read - expected) > expected / 1000:  # Java prints rounded megabytes
            raise RuntimeError(f"{who}: {read:,} bytes in {measured.records:,} records")
        return
    least, most = job.records, job.records
    if job.task == "latency":
        most += 1  # some clients send a record first, to open their connections
    if job.task == "transactions":
        # Each adds a marker to the partitions that it has written to; the last may still lack its markers.
        least += max(measured.transactions - 1, 0)
        most += measured.transactions * _PARTITIONS
    if not least <= stored <= most:
        raise RuntimeError(f"{who}: {stored:,} of {job.records:,} records are stored")


class Bench:
    """Runs scenarios on a broker, with *scale* times the records that each contender names.

    Every run is checked: the records produced against the broker's offsets, the records consumed by their
    number and size. Raises RuntimeError if they differ. *target_servers* is the cluster to which mirrors
    copy; only scenarios with mirrors need it.
    """

    def __init__(self, bootstrap_servers: str, scale: float = 1.0, target_servers: str = "") -> None:
        self._servers = bootstrap_servers
        self._target = Admin(target_servers) if target_servers else None
        self._target_servers = target_servers
        self._scale = scale
        self._admin = Admin(bootstrap_servers)
        self._topics = 0
        self._sources: dict[Scenario, str] = {}
        self._mean_sizes: dict[Scenario, float] = {}

    def load(self, scenario: Scenario) -> None:
        """Create the topic that contenders of *scenario* read or mirror, with enough records for each of
        them."""
        if scenario.has_source:
            reading = [contender for contender in scenario.contenders if contender.has_source]
            records = max(self._records(scenario, contender) for contender in reading)
            job = self._job(scenario, CONFLUENT_SEND, self._new_topic(scenario), records)
            # With less time, a partition would get few records in a batch if there are many partitions.
            job = replace(job, linger_ms=_LOADING_LINGER_MS if scenario.batch_records else job.linger_ms)
            self._check(job, run_job(job, CONFLUENT_SEND.kernel))
            self._sources[scenario] = job.topic
        if not all(contender.task.startswith("consume") for contender in scenario.contenders):
            values = values_for(self._job(scenario, scenario.contenders[0], "", 0))
            is_empty = scenario.field == "tombstone"
            self._mean_sizes[scenario] = 0.0 if is_empty else statistics.fmean(map(len, values))

    def trial(self, scenario: Scenario, contender: Contender) -> Measured:
        """Do a run with few records that does not count, so that errors show early."""
        return self._run(scenario, contender, min(_TRIAL_RECORDS, self._records(scenario, contender)))

    def run(self, scenario: Scenario, contender: Contender) -> Measured:
        """Do a run that counts."""
        return self._run(scenario, contender, self._records(scenario, contender))

    def drop(self, scenario: Scenario) -> None:
        """Delete the topic that contenders of *scenario* read or mirror."""
        if scenario in self._sources:
            self._admin.delete_topic(self._sources.pop(scenario))

    def close(self) -> None:
        self._admin.close()
        if self._target is not None:
            self._target.close()

    def _records(self, scenario: Scenario, contender: Contender) -> int:
        return max(
            min(_FEWEST_RECORDS, contender.records), int(contender.records * scenario.share * self._scale)
        )

    def _run(self, scenario: Scenario, contender: Contender, records: int) -> Measured:
        if contender.mirrors:
            return self._run_mirror(scenario, contender, records)
        if scenario.is_scripted:
            return self._run_scripted(scenario, contender, records)
        topic = self._sources[scenario] if contender.has_source else self._new_topic(scenario)
        job = self._job(scenario, contender, topic, records)
        with _slow(self._servers) if scenario.is_slow else nullcontext(self._servers) as servers:
            measured = run_job(replace(job, bootstrap_servers=servers), contender.kernel)
        self._check(job, measured)
        if scenario.is_steady:
            measured.cpu = measured.steady_cpu
        if not contender.has_source:
            measured.payload_bytes = int(self._mean_sizes[scenario] * measured.records)
            self._admin.delete_topic(topic)
        return measured

    def _run_mirror(self, scenario: Scenario, contender: Contender, records: int) -> Measured:
        assert self._target is not None
        job = self._job(scenario, contender, self._sources[scenario], records)
        self._target.create_topic(job.topic, partitions=_PARTITIONS)
        measured = run_job(job, contender.kernel)
        stored = sum(self._target.end_offsets(self._target.partitions([job.topic])).values())
        check(job, measured, stored)
        self._target.delete_topic(job.topic)
        measured.payload_bytes = int(self._mean_sizes[scenario] * measured.records)
        return measured

    def _run_scripted(self, scenario: Scenario, contender: Contender, records: int) -> Measured:
        with cluster_of(Layout(scenario.brokers, scenario.partitions)) as cluster:
            job = self._job(scenario, contender, TOPIC, records)
            measured = run_job(replace(job, bootstrap_servers=cluster.bootstrap_servers), contender.kernel)
        check(job, measured, measured.records)
        if scenario.is_steady:
            measured.cpu = measured.steady_cpu
        measured.payload_bytes = int(self._mean_sizes[scenario] * measured.records)
        return measured

    def _check(self, job: Job, measured: Measured) -> None:
        stored = 0
        if not job.task.startswith("consume"):
            stored = sum(self._admin.end_offsets(self._admin.partitions([job.topic])).values())
        check(job, measured, stored)

    def _new_topic(self, scenario: Scenario) -> str:
        self._topics += 1
        name = f"bench-{self._topics}"
        settings = {"max.message.bytes": _LARGEST_BATCH} if scenario.batch_records else {}
        self._admin.create_topic(name, partitions=scenario.partitions, config=settings)
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
            target_servers=self._target_servers,
            transaction_records=scenario.transaction_records,
            batch_records=scenario.batch_records,
            buffer_mib=scenario.buffer_mib,
            acks=scenario.acks,
        )


@contextmanager
def _slow(bootstrap_servers: str) -> Iterator[str]:
    """Yield the address of a proxy in front of the broker, which holds each Produce request back."""
    held = Fault(Place.REQUEST, Action.HOLD, _HELD_SECONDS)
    with FaultProxy(bootstrap_servers, FaultPlan({ProduceRequest: repeat((1, held))})) as proxy:
        yield proxy.bootstrap_servers


def rotated(contenders: Sequence[Contender], number: int) -> list[Contender]:
    """Return *contenders* in a different order for each round, so that none always follows the same one."""
    start = number * 3 % len(contenders)
    return [*contenders[start:], *contenders[:start]]
