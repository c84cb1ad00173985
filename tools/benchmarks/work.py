"""A run of one client: its job, its records and its measurements."""

import json
import random
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib import import_module
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Literal, TypeVar

__all__ = [
    "AT_ONCE",
    "DISTINCT",
    "Clock",
    "Compression",
    "Job",
    "Measured",
    "TransactionEnds",
    "fields_for",
    "json_encoder",
    "measuring",
    "objects_for",
    "values_for",
]

AT_ONCE = 1_000
"""The number of records that a program sends before it looks at something else, such as the clock."""


DISTINCT = 20_000
"""The number of different records, which are sent in turn. They vary enough, and take little memory."""

_VALUE_BYTES = 64 * 1024 * 1024
"""The memory for different values. If they are large, there are fewer of them."""

_TRANSACTION_SECONDS = 1.0

Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]

T = TypeVar("T")


@dataclass(frozen=True)
class Job:
    """One client, one task and one kind of record. It is sent to the worker process as JSON.

    ``field`` names the field of a record besides its value: "", "key", "headers", "timestamp" or "all"; a
    "tombstone" has a key and no value. ``values`` are "random", "flights" (JSON) or "objects", which are
    flights that the client encodes as JSON.
    ``rate`` is in records per second; 0 means as fast as possible. ``target_servers`` is the cluster to which
    a mirror copies the topic. ``batch_records`` is the largest number of records in a batch, and
    ``buffer_mib`` the memory of a producer; 0 means the setting that the client has in the other scenarios.
    ``transaction_records`` is the number of records in a transaction; 0 means that a transaction lasts a
    second.
    """

    client: str
    task: str
    bootstrap_servers: str
    topic: str
    records: int
    value_size: int
    values: str = "random"
    compression: Compression = "none"
    field: str = ""
    rate: int = 0
    target_servers: str = ""
    batch_records: int = 0
    buffer_mib: int = 0
    acks: Literal["all", "1"] = "all"
    linger_ms: int = 5
    transaction_records: int = 0

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Job":
        return cls(**json.loads(text))

    def repeated(self, items: Sequence[T]) -> Iterator[T]:
        """Repeat *items*, one for each record, at the lowest cost that a loop can have."""
        return islice(cycle(items), self.records)

    def rest(self, items: Sequence[T]) -> Iterator[T]:
        """Repeat *items* without the first record, which a producer sends before the others."""
        return islice(cycle(items), self.records - 1)


@dataclass
class Measured:
    """The measurements of one run: wall time, and CPU time of the client's process with all its threads.

    ``steady_cpu`` is the part of ``cpu`` after the restart of the clock. The start of the client is before.
    """

    records: int = 0
    payload_bytes: int = 0
    wall: float = 0.0
    cpu: float = 0.0
    steady_cpu: float = 0.0
    peak_mib: float = 0.0
    percentiles_ms: dict[str, float] = field(default_factory=dict)
    transactions: int = 0

    @property
    def cpu_per_record_us(self) -> float:
        return self.cpu / self.records * 1e6

    @property
    def wall_per_record_us(self) -> float:
        return self.wall / self.records * 1e6

    def latencies(self, seconds: Iterable[float]) -> None:
        """Store the percentiles of *seconds*, which has one latency for each record."""
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


class TransactionEnds:
    """Decides where the transactions of *job* end. A program asks after it has sent some records."""

    def __init__(self, job: Job) -> None:
        self._limit = job.transaction_records
        self._records = 0
        self._begun = time.perf_counter()

    def begin(self) -> None:
        self._records = 0
        self._begun = time.perf_counter()

    def after(self, records: int) -> bool:
        """Count *records* that were sent. Return True if the transaction ends now."""
        self._records += records
        if self._limit:
            return self._records >= self._limit
        return time.perf_counter() - self._begun >= _TRANSACTION_SECONDS


class Clock:
    """The wall clock of a run. It is restarted at the first confirmation or the first records, because
    connecting and joining a group take some clients a second, which says nothing about their speed."""

    def __init__(self) -> None:
        self._ended = 0.0
        self.begin()

    def begin(self) -> None:
        self._begun = time.perf_counter()
        self._cpu = time.process_time()

    def end(self) -> None:
        self._ended = time.perf_counter()

    @property
    def cpu(self) -> float:
        """The CPU time since the clock was restarted."""
        return time.process_time() - self._cpu

    @property
    def seconds(self) -> float:
        return (self._ended or time.perf_counter()) - self._begun


@contextmanager
def measuring(measured: Measured) -> Iterator[Clock]:
    """Measure the CPU time and wall time of the ``with`` block, and the peak memory of the process."""
    cpu, clock = time.process_time(), Clock()
    yield clock
    measured.wall = clock.seconds
    measured.cpu, measured.steady_cpu = time.process_time() - cpu, clock.cpu
    measured.peak_mib = _peak_mib()


def _peak_mib() -> float:
    if sys.platform == "linux":
        # getrusage() would also count the memory of the parent when it started this process.
        status = Path("/proc/self/status").read_text(encoding="ascii")
        return int(status.split("VmHWM:")[1].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 / 1024


def values_for(job: Job) -> list[bytes]:
    """Return the values of *job*, the same for every client: incompressible bytes, or flights as JSON."""
    if job.values != "random":
        # Imported here, so that it does not count for the memory of other runs.
        from pyklient.cli.demo.flights import Flights

        return [value for _, value in Flights(DISTINCT)]
    source = random.Random(20_260_101)
    count = min(DISTINCT, _VALUE_BYTES // job.value_size)
    return [source.randbytes(job.value_size) for _ in range(count)]


def objects_for(job: Job) -> list[Any]:
    """Return the values of *job* before they are encoded."""
    return [json.loads(value) for value in values_for(job)]


def json_encoder(job: Job) -> Callable[[Any], bytes]:
    """Return the function that turns the objects of *job* into JSON."""
    # Imported here, so that it does not count for the memory of other runs.
    if job.task == "produce-msgspec":
        encode: Callable[[Any], bytes] = import_module("msgspec.json").Encoder().encode
        return encode
    from pyklient.serialization import encode_json

    return encode_json


def fields_for(job: Job) -> list[Any]:
    """Return (value, field) pairs for a *job* whose records have one field besides the value, or (value, key,
    timestamp in ms, headers) if they have all fields."""
    values = values_for(job)
    numbers = range(len(values))
    now = int(time.time() * 1000) - len(values)
    keys = [b"user-%06d" % (number % 5_000) for number in numbers]
    times = [now + number for number in numbers]
    headers = [[("trace", b"%016x" % number), ("source", b"benchmark")] for number in numbers]
    columns: dict[str, list[Sequence[Any]]] = {
        "key": [values, keys],
        "tombstone": [[None] * len(values), keys],
        "timestamp": [values, times],
        "headers": [values, headers],
        "all": [values, keys, times, headers],
    }
    return list(zip(*columns[job.field], strict=True))
