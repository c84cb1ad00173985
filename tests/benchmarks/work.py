"""What one client is asked to do in one run, and what was measured of it."""

import json
import os
import random
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field

from pyklient.cli.demo.flights import Flights

__all__ = ["Job", "Measured", "measuring", "values_for"]

DISTINCT_VALUES = 20_000
"""So many different values are made and sent in turn: enough to be unlike, cheap enough to hold."""


@dataclass(frozen=True)
class Job:
    """One client, one task, one kind of record. Travels to the worker process as JSON."""

    client: str
    task: str
    bootstrap_servers: str
    topic: str
    records: int
    value_size: int
    values: str = "random"
    compression: str = "none"
    acks: str = "all"
    rate: int = 0

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Job":
        return cls(**json.loads(text))


@dataclass
class Measured:
    """One run: whole seconds by the clock, CPU seconds of the client's process with all its threads."""

    records: int = 0
    payload_bytes: int = 0
    wall: float = 0.0
    cpu: float = 0.0
    peak_mib: float = 0.0
    latencies_ms: list[float] = field(default_factory=list)
    note: str = ""

    @property
    def cpu_per_record_us(self) -> float:
        return self.cpu / self.records * 1e6

    @property
    def records_per_second(self) -> float:
        return self.records / self.wall

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Measured":
        return cls(**json.loads(text))


def values_for(job: Job) -> list[bytes]:
    """The values of *job*, the same for every client: incompressible bytes, or flights as JSON."""
    if job.values == "flights":
        return [value for _, value in Flights(DISTINCT_VALUES)]
    source = random.Random(20_260_101)
    return [source.randbytes(job.value_size) for _ in range(min(job.records, DISTINCT_VALUES))]


@contextmanager
def measuring(measured: Measured) -> Iterator[None]:
    """Adds the clock and CPU time spent inside to *measured*, and the process's peak memory so far."""
    cpu, wall = time.process_time(), time.perf_counter()
    yield
    measured.wall = time.perf_counter() - wall
    measured.cpu = time.process_time() - cpu
    scale = 1024 if os.uname().sysname == "Linux" else 1024 * 1024
    measured.peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / scale
