"""The batches of many partitions are put into the queues of streams together."""

from pyklient.consumer.fetch.arrivals import Arrivals
from pyklient.consumer.fetch.fetch_budget import FetchBudget
from pyklient.consumer.fetch.fetch_position import FetchedBatches
from tests.consumer.stream.bench import Bench


def fetched(bench: Bench, partition: int, size: int) -> list[FetchedBatches]:
    return [FetchedBatches(bench.cursors[partition], memoryview(bytes(size)), 0, 1)]


def test_small_batches_are_queued_together() -> None:
    bench = Bench()
    arrivals, queue = Arrivals(FetchBudget(1 << 20)), bench.stream.queue
    first, second = fetched(bench, 0, 100), fetched(bench, 1, 100)
    arrivals.add(queue, first)
    arrivals.add(queue, second)
    assert not queue.items
    arrivals.queue_all()
    assert list(queue.items) == first + second
    assert [cursor.fetched for cursor in bench.cursors] == [100, 100]
    arrivals.queue_all()
    assert len(queue.items) == 2


def test_large_batches_are_queued_at_once() -> None:
    bench = Bench()
    arrivals, queue = Arrivals(FetchBudget(1 << 20)), bench.stream.queue
    small, large = fetched(bench, 0, 100), fetched(bench, 1, 100_000)
    arrivals.add(queue, small)
    arrivals.add(queue, large)
    assert list(queue.items) == small + large


def test_each_stream_gets_its_own_batches() -> None:
    one, other = Bench(), Bench()
    arrivals = Arrivals(FetchBudget(1 << 20))
    first, second = fetched(one, 0, 100), fetched(other, 0, 100)
    arrivals.add(one.stream.queue, first)
    arrivals.add(other.stream.queue, second)
    arrivals.queue_all()
    assert (list(one.stream.queue.items), list(other.stream.queue.items)) == (first, second)


def test_batches_of_a_partition_that_was_revoked_meanwhile_are_dropped() -> None:
    bench = Bench()
    arrivals, queue = Arrivals(FetchBudget(1 << 20)), bench.stream.queue
    kept = fetched(bench, 1, 100)
    arrivals.add(queue, fetched(bench, 0, 100))
    arrivals.add(queue, kept)
    bench.cursors[0].owned.active = False
    arrivals.queue_all()
    assert list(queue.items) == kept
    assert bench.cursors[0].fetched == 0


def test_the_budget_counts_batches_when_they_are_queued() -> None:
    bench, budget = Bench(), FetchBudget(1 << 20)
    budget.cursors = bench.cursors
    arrivals = Arrivals(budget)

    def most() -> int:
        return budget.allow(bench.cursors[:1], 1 << 20, 0.0)[bench.cursors[0]]

    before = most()
    arrivals.add(bench.stream.queue, fetched(bench, 1, 400_000))
    assert most() < before
