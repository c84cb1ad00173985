"""What a call costs does not grow with the number of batches that are unfinished, or of threads that wait."""

import threading
import time
from collections.abc import Callable

import pytest

from pyklient.errors import BufferFullError
from pyklient.producer.accumulate import accumulator as accumulator_module
from pyklient.producer.accumulate.accumulator import Clocks
from pyklient.producer.accumulate.memory_use import MemoryUse
from tests.producer.accumulate.test_accumulator import LIMITS, Bench
from tests.producer.script import wait_until
from tests.steps import steps_of

PLENTY = LIMITS._replace(buffer_memory=1 << 40, batch_size=0)
PARTITIONS = 7


def bench_with(batches: int) -> Bench:
    """Return an accumulator with *batches* unfinished batches of one record, of which a few are open."""
    bench = Bench(PLENTY, clicks=PARTITIONS)
    for number in range(batches):
        bench.send("clicks", b"value", partition=number % PARTITIONS)
    assert len(bench.accumulator.unfinished()) == batches
    bench.accumulator.send_open_batches()
    return bench


def fill(bench: Bench) -> None:
    """Leave no memory for another record."""
    used = bench.accumulator.appender.used_memory
    bench.accumulator.limits = bench.accumulator.limits._replace(buffer_memory=used, max_block=0.0)
    bench.accumulator.appender.memory_limit = used


def wait_for_memory(bench: Bench) -> None:
    with pytest.raises(BufferFullError):
        bench.send("clicks", b"value", partition=0)


def finish_the_oldest(bench: Bench) -> None:
    oldest = bench.accumulator.oldest_unfinished()
    assert oldest is not None
    bench.finish(oldest)


def look_for_unfinished_batches(bench: Bench) -> None:
    assert bench.accumulator.has_unfinished()


def choose_a_sticky_partition(bench: Bench) -> None:
    bench.send("clicks", b"value")
    bench.send("clicks", b"value")


@pytest.mark.parametrize(
    "call", [wait_for_memory, finish_the_oldest, look_for_unfinished_batches, choose_a_sticky_partition]
)
def test_a_call_takes_as_many_steps_with_a_hundred_times_the_batches(call: Callable[[Bench], None]) -> None:
    steps = []
    for batches in (100, 10_000):
        bench = bench_with(batches)
        if call is wait_for_memory:
            fill(bench)
        call(bench)
        steps.append(steps_of(lambda bench=bench: call(bench)))  # type: ignore[misc]
    assert steps[1] <= steps[0] * 1.3 + 50


def test_the_open_batches_are_found_once() -> None:
    bench = Bench(PLENTY._replace(batch_size=1_000), clicks=PARTITIONS)
    for partition in range(PARTITIONS):
        bench.send("clicks", b"value", partition=partition)
    bench.accumulator.send_open_batches()
    assert len(bench.accumulator.sealer.due_batches) == PARTITIONS
    bench.accumulator.send_open_batches()
    assert len(bench.accumulator.sealer.due_batches) == PARTITIONS


def test_to_release_memory_takes_as_many_steps_however_many_threads_wait() -> None:
    bench = bench_with(3)
    fill(bench)
    accumulator = bench.accumulator
    accumulator.limits = accumulator.limits._replace(max_block=30.0)
    accumulator.clocks = Clocks(lambda: 1_000, time.monotonic)
    threads: list[threading.Thread] = []
    steps = []
    for waiting in (1, 10):
        while len(threads) < waiting:
            thread = threading.Thread(target=bench.send, args=("clicks", b"value"), daemon=True)
            thread.start()
            threads.append(thread)
            wait_until(lambda: len(accumulator._waiting.wakeups) == len(threads))
        steps.append(steps_of(lambda: accumulator._release(0)))
    assert steps[0] == steps[1]

    def finish_all() -> bool:
        for batch in accumulator.unfinished():
            bench.finish(batch)
        return not accumulator._waiting.wakeups

    wait_until(finish_all)
    for thread in threads:
        thread.join(30)


class Waiting:
    """A thread that waits for memory. It is full of a hundred sealed batches, and an ``open`` one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, gathering: float) -> None:
        monkeypatch.setattr(accumulator_module, "_GATHERING", gathering)
        self.bench = Bench(PLENTY._replace(batch_size=1_000, linger=3_600.0), clicks=PARTITIONS)
        accumulator = self.bench.accumulator
        accumulator.clocks = Clocks(lambda: 1_000, time.monotonic)
        for _ in range(100):
            self.bench.send("clicks", bytes(900), partition=0)
        accumulator.send_open_batches()
        self.open, _ = self.bench.send("clicks", b"", partition=0).batch_and_index
        used = accumulator.appender.used_memory
        accumulator.limits = accumulator.limits._replace(buffer_memory=used, max_block=60.0)
        accumulator.memory = MemoryUse(accumulator.appender, used)
        self.sent: list[object] = []
        self.thread = threading.Thread(target=self._send, daemon=True)
        self.thread.start()
        wait_until(lambda: len(accumulator._waiting.wakeups) == 1)

    def _send(self) -> None:
        self.sent.append(self.bench.send("clicks", b"value", partition=5))

    def finish(self, batches: int) -> None:
        for batch in self.bench.accumulator.unfinished()[:batches]:
            self.bench.finish(batch)


def test_a_thread_that_waits_for_memory_continues_when_an_eighth_of_the_memory_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waiting = Waiting(monkeypatch, gathering=60.0)
    waiting.finish(3)
    wait_until(lambda: waiting.bench.accumulator._waiting.gathering)
    assert not waiting.sent
    waiting.finish(11)
    waiting.thread.join(30)
    assert waiting.sent
    assert not waiting.open.sealed, "sealed batches have released memory"


def test_a_thread_that_waits_for_memory_continues_soon_when_its_record_fits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waiting = Waiting(monkeypatch, gathering=0.0)
    wait_until(lambda: waiting.open.sealed)
    waiting.finish(3)
    waiting.thread.join(30)
    assert waiting.sent
