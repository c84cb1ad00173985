"""The memory that a batch allocates while it grows. All of it is charged, and moving a batch is expensive."""

from itertools import pairwise
from typing import Any

import pytest

from tests.kernel.appending import Bench

MIB = 1 << 20
RECORD = bytes(100)


def capacities(bench: Bench, batch: Any) -> list[int]:
    """Append to *batch* until an append is declined. Return each capacity that it had."""
    found: list[int] = []
    while bench.appender.send("clicks", RECORD) is not bench.nowhere:
        if batch.capacity not in found:
            found.append(batch.capacity)
    return found


def test_the_first_batch_grows_in_few_steps(kernel: Any) -> None:
    bench = Bench(kernel, batch_size=MIB, limit=32 * MIB)
    assert len(capacities(bench, bench.open())) <= 11


def test_a_batch_is_not_moved_if_it_gets_as_large_as_the_one_before(kernel: Any) -> None:
    bench = Bench(kernel, batch_size=MIB, limit=32 * MIB)
    first = bench.open()
    capacities(bench, first)
    second = bench.open()
    assert capacities(bench, second) == [first.size] == [second.size]


def test_a_batch_that_was_sealed_early_halves_what_is_expected_of_the_next(kernel: Any) -> None:
    bench = Bench(kernel, batch_size=MIB, limit=32 * MIB)
    capacities(bench, bench.open())
    full = bench.open().expected_size
    expected = []
    for _ in range(3):
        bench.appender.send("clicks", RECORD)
        expected.append(bench.open().expected_size)
    assert expected == [full // 2, full // 4, full // 8]
    assert full > MIB - 200


def test_each_open_batch_sets_aside_no_more_than_its_share(kernel: Any) -> None:
    partitions = 64
    bench = Bench(kernel, batch_size=MIB, limit=64 * MIB)
    bench.appender.set_partitions("clicks", partitions)
    for partition in range(partitions):
        bench.appender.begin_batch("clicks", partition, 0.0)
        while bench.appender.send("clicks", bytes(10_000), None, partition) is not bench.nowhere:
            pass
        full = bench.appender.current_batch("clicks", partition)
        bench.appender.seal_batch(full)
        bench.appender.release_memory(full.charged)
    for partition in range(partitions):
        bench.appender.begin_batch("clicks", partition, 0.0)
        assert bench.appender.send("clicks", RECORD, None, partition) is not bench.nowhere
    # So that not one record in each of them takes all memory.
    assert bench.appender.used_memory < 64 * MIB * 9 // 10


@pytest.mark.parametrize("free", [30_000, 300_000, 900_000])
def test_few_moves_are_small_when_memory_runs_short(kernel: Any, free: int) -> None:
    bench = Bench(kernel, batch_size=MIB, limit=free)
    steps = capacities(bench, bench.open())
    assert len(steps) <= 14
    assert bench.appender.used_memory > free - len(RECORD) - 20
    # Each step but those to the last bytes makes a batch half as large again.
    large = [later / before for before, later in pairwise(steps) if before > 1_000]
    assert sum(ratio < 1.5 for ratio in large) <= 1
