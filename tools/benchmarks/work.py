"""What one client is asked to do in one run, the records it is given, and what was measured of it."""

import json
import random
import resource
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Literal, TypeVar

__all__ = ["DISTINCT", "Clock", "Job", "Measured", "fields_for", "measuring", "values_for"]

DISTINCT = 20_000
"""So many different records are made and sent in turn: enough to be unlike, cheap enough to hold."""

T = TypeVar("T")


@dataclass(frozen=True)
class Job:
    """One client, one task, one kind of record. Travels to the worker process as JSON.

    ``field`` is what the records carry besides a value: nothing, "key", "headers", "timestamp" or "all".
    ``rate`` is records a second, 0 for as fast as it goes.
    """

    client: str
    task: str
    bootstrap_servers: str
    topic: str
    records: int
    value_size: int
    values: str = "random"
    compression: Literal["none", "zstd"] = "none"
    field: str = ""
    rate: int = 0

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Job":
        return cls(**json.loads(text))

    def repeated(self, items: Sequence[T]) -> Iterator[T]:
        """*items* over and over, one for each record: the loop costs a client as little as a loop can."""
        return islice(cycle(items), self.records)

    def rest(self, items: Sequence[T]) -> Iterator[T]:
        """The same without the first record, which a producer has confirmed ahead of the others."""
        return islice(cycle(items), self.records - 1)


@dataclass
class Measured:
    """One run: seconds by the clock, CPU seconds of the client's process with all its threads."""

    records: int = 0
    payload_bytes: int = 0
    wall: float = 0.0
    cpu: float = 0.0
    peak_mib: float = 0.0
    percentiles_ms: dict[str, float] = field(default_factory=dict)

    @property
    def cpu_per_record_us(self) -> float:
        return self.cpu / self.records * 1e6

    @property
    def wall_per_record_us(self) -> float:
        return self.wall / self.records * 1e6

    def latencies(self, seconds: Iterable[float]) -> None:
        """Note the percentiles of *seconds*, one for each record."""
        ordered = sorted(seconds)
        last = len(ordered) - 1
        self.records = len(ordered)
        self.percentiles_ms = {
            name: ordered[min(last, int(len(ordered) * share))] * 1e3
            for name, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999))
        }

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Measured":
        return cls(**json.loads(text))


class Clock:
    """The wall clock of a run. It begins anew with a producer's first confirmation and a consumer's first
    records: finding the broker and joining a group take some clients a second, and none of its speed."""

    def __init__(self) -> None:
        self._begun = time.perf_counter()
        self._ended = 0.0

    def begin(self) -> None:
        self._begun = time.perf_counter()

    def end(self) -> None:
        self._ended = time.perf_counter()

    @property
    def seconds(self) -> float:
        return (self._ended or time.perf_counter()) - self._begun


@contextmanager
def measuring(measured: Measured) -> Iterator[Clock]:
    """Notes the CPU time spent inside, the clock, and the process's peak memory so far."""
    cpu, clock = time.process_time(), Clock()
    yield clock
    measured.wall = clock.seconds
    measured.cpu = time.process_time() - cpu
    measured.peak_mib = _peak_mib()


def _peak_mib() -> float:
    if sys.platform == "linux":
        # getrusage() would count what the parent held when it started this process, too.
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(status.split("VmHWM:")[1].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 / 1024


def values_for(job: Job) -> list[bytes]:
    """The values of *job*, the same for every client: incompressible bytes, or flights as JSON."""
    if job.values == "flights":
        from pyklient.cli.demo.flights import Flights  # here, so that no other run's memory holds it

        return [value for _, value in Flights(DISTINCT)]
    source = random.Random(20_260_101)
    return [source.randbytes(job.value_size) for _ in range(DISTINCT)]


def fields_for(job: Job) -> list[Any]:
    """(value, field) for a *job* of records with one field besides the value, (value, key, timestamp in ms,
    headers) where they carry all of them."""
    now = int(time.time() * 1000) - DISTINCT
    values = values_for(job)
    keys = [b"user-%06d" % (number % 5_000) for number in range(DISTINCT)]
    times = [now + number for number in range(DISTINCT)]
    headers = [[("trace", b"%016x" % number), ("source", b"benchmark")] for number in range(DISTINCT)]
    columns: dict[str, list[Sequence[Any]]] = {
        "key": [values, keys],
        "timestamp": [values, times],
        "headers": [values, headers],
        "all": [values, keys, times, headers],
    }
    return list(zip(*columns[job.field], strict=True))
