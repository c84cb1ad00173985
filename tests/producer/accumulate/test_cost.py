"""What a call costs does not grow with the number of batches that are unfinished, or of threads that wait."""

import threading
import time
from collections.abc import Callable

import pytest

from pyklient.errors import BufferFullError
from pyklient.producer.accumulate import accumulator as accumulator_module
from pyklient.producer.accumulate import waiting_threads
from pyklient.producer.accumulate.accumulator import Clocks
from pyklient.producer.accumulate.memory_use import MemoryUse
from pyklient.producer.accumulate.waiting_threads import Gathering
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
    """A thread that waits for memory. It is full of a hundred sealed batches, and an ``open`` one.

    The open batch is sealed after *sealing* seconds. The thread gathers for *longest* seconds at most, and at
    first for *first_pause* seconds.
    """

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *, sealing: float, first_pause: float, longest: float
    ) -> None:
        monkeypatch.setattr(accumulator_module, "_SEALING", sealing)
        monkeypatch.setattr(waiting_threads, "_FIRST_PAUSE", first_pause)
        monkeypatch.setattr(waiting_threads, "_LONGEST", longest)
        self.bench = Bench(PLENTY._replace(batch_size=1_000, linger=3_600.0), clicks=PARTITIONS)
        accumulator = self.bench.accumulator
        accumulator.clocks = Clocks(lambda: 1_000, time.monotonic)
        for _ in range(100):
            self.bench.send("clicks", bytes(900), partition=0)
        accumulator.send_open_batches()
        self.open, _ = self.bench.send("clicks", b"", partition=0).batch_and_index
        used = accumulator.appender.used_memory
        accumulator.limits = accumulator.limits._replace(buffer_memory=used, max_block=3_600.0)
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

    def gather(self) -> None:
        """Release the memory for a few records, and wait until the thread gathers."""
        self.finish(3)
        wait_until(lambda: self.bench.accumulator._waiting.gathering)


def test_a_thread_that_waits_for_memory_continues_when_an_eighth_of_the_memory_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waiting = Waiting(monkeypatch, sealing=60.0, first_pause=60.0, longest=60.0)
    waiting.gather()
    assert not waiting.sent
    waiting.finish(11)
    waiting.thread.join(30)
    assert waiting.sent
    assert not waiting.open.sealed, "sealed batches have released memory"


def test_a_thread_that_waits_for_memory_continues_soon_when_its_record_fits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waiting = Waiting(monkeypatch, sealing=0.0, first_pause=0.0, longest=0.0)
    wait_until(lambda: waiting.open.sealed)
    waiting.finish(3)
    waiting.thread.join(30)
    assert waiting.sent


def test_a_thread_whose_record_fits_waits_no_longer_when_no_more_memory_is_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waiting = Waiting(monkeypatch, sealing=60.0, first_pause=0.001, longest=450.0)
    waiting.finish(3)
    waiting.thread.join(30)
    assert waiting.sent


def test_another_thread_that_comes_does_not_end_the_gathering_of_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waiting = Waiting(monkeypatch, sealing=60.0, first_pause=60.0, longest=60.0)
    waiting.gather()
    accumulator = waiting.bench.accumulator
    accumulator.limits = accumulator.limits._replace(max_block=0.0)
    with pytest.raises(BufferFullError):
        waiting.bench.send("clicks", b"value", partition=6)
    assert accumulator._waiting.gathering
    waiting.finish(11)
    waiting.thread.join(30)
    assert waiting.sent


@pytest.mark.parametrize(
    ("max_block", "pauses"), [(60.0, [5, 5, 10, 20, 10]), (0.08, [5, 5]), (0.02, [2.5]), (0.0, [0])]
)
def test_the_pauses_of_a_thread_that_gathers_grow_and_end(max_block: float, pauses: list[float]) -> None:
    bench = bench_with(1_000)
    memory = MemoryUse(bench.accumulator.appender, bench.accumulator.appender.used_memory)
    gathering = Gathering(memory, max_block)
    taken = []
    for batch in bench.accumulator.unfinished():
        taken.append(1_000 * gathering.begin_pause())
        bench.finish(batch)
        if gathering.is_over():
            break
    assert taken == pytest.approx(pauses)


def test_a_thread_gathers_until_a_thirty_second_of_the_memory_is_free() -> None:
    bench = bench_with(64)
    memory = MemoryUse(bench.accumulator.appender, bench.accumulator.appender.used_memory)
    gathering = Gathering(memory, 60.0)
    over = []
    for batch in bench.accumulator.unfinished()[:2]:
        gathering.begin_pause()
        bench.finish(batch)
        over.append(gathering.is_over())
    assert over == [False, True]


def test_a_thread_stops_gathering_after_a_pause_in_which_no_memory_was_released() -> None:
    bench = bench_with(64)
    memory = MemoryUse(bench.accumulator.appender, bench.accumulator.appender.used_memory)
    gathering = Gathering(memory, 60.0)
    gathering.begin_pause()
    bench.finish(bench.accumulator.unfinished()[0])
    assert not gathering.is_over()
    gathering.begin_pause()
    assert gathering.is_over()
