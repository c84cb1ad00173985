"""The topics that records can be appended to, their batches under construction, and the memory these take.

This is the half of an Appender that both kernels share. Nothing here runs once per record.
"""

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from pyklient.kernel.append.delivery_reports import DeliveryState, Tracker

__all__ = ["BATCH_COST", "CALLBACK_COST", "LARGE_CAPACITY", "LEAST_CAPACITY", "OpenBatches", "capacity_for"]

BATCH_COST: Final = 3584
"""Memory charged for a batch beside its records: its objects here (1 KiB), those that carry it to the broker,
and those of its partition."""

CALLBACK_COST: Final = 400
"""Memory charged for a callback: the Delivery that it keeps alive, its entry in the batch, and a closure."""

LEAST_CAPACITY: Final = 256
LARGE_CAPACITY: Final = 32 * 1024

B = TypeVar("B", bound=DeliveryState)


def capacity_for(have: int, needed: int, expected: int, most: int, free_memory: int, share: int) -> int:
    """Return the new capacity of a batch that has *have* bytes of memory and needs *needed*.

    All of it is charged, so the capacity only doubles: with many partitions, larger steps would leave most of
    the memory unused. Moving a large batch is expensive, so two steps are larger if they are within *share*,
    which is what each open batch may take of *free_memory*: a new batch gets the *expected* size at once, and
    a large one grows eightfold. No step goes above *most* bytes unless the record needs that. When memory
    runs short, at least half of what is left is taken, so that few moves are small.
    """
    wanted = max(2 * have, LEAST_CAPACITY)
    if have >= LARGE_CAPACITY:
        wanted = max(wanted, min(8 * have, have + share))
    elif not have:
        wanted = max(wanted, min(expected, share))
    wanted = max(min(wanted, most), needed)
    if wanted - have > free_memory:
        wanted = max(needed, have + max(free_memory // 2, min(free_memory, have // 2)))
    return wanted


class OpenBatches(Generic[B]):
    """The half of an Appender that knows topics and accounts for memory. The kernel's half appends records.

    Both halves may run at the same time in different threads if the kernel's takes no lock. So a batch is
    sealed before anybody else gets it, and the kernel checks the partition counts that it finds here.
    """

    OVERHEAD: Final = BATCH_COST + CALLBACK_COST
    """Memory charged, beside its bytes, for a record that begins a batch and has a callback."""

    def __init__(
        self,
        tracker: Tracker,
        batch_size: int,
        memory_limit: int,
        plain: bool,
        new_topic: Callable[[int], Any],
        new_batch: Callable[[Tracker, str, int, float, int], B],
    ) -> None:
        self.memory_limit = memory_limit
        """Memory above which ``send`` declines. Lowered while a caller waits for memory, so that nobody
        overtakes it."""
        self._tracker = tracker
        self._lock = tracker.lock
        self._batch_size = batch_size
        self._new_topic = new_topic
        self._new_batch = new_batch
        self._charged = 0
        self._released = 0
        self._open_batches = 0
        self._known: dict[str, Any] = {}
        # The topics that ``send`` sees: none if it has to decline everything.
        self._sendable: dict[str, Any] = self._known if plain else {}
        # The topic that the kernel's half looked up last, if it remembers that.
        self._latest: Any = None

    @property
    def used_memory(self) -> int:
        """The memory charged for batches that are not done yet."""
        return self._charged - self._released

    def set_partitions(self, topic: str, partitions: int) -> None:
        """Let *topic* have *partitions* partitions. It may be new, have grown, or be recreated with fewer."""
        with self._lock:
            known = self._known.get(topic) or self._new_topic(self._batch_size)
            self._seal(known.batches, partitions)
            known.batches += [None] * (partitions - len(known.batches))
            known.expected_sizes += [0] * (partitions - len(known.expected_sizes))
            known.count = partitions
            known.sticky = min(known.sticky, partitions - 1)
            self._known[topic] = known

    def remove_topic(self, topic: str) -> None:
        """Remove *topic*. Its batches under construction take no more records."""
        with self._lock:
            known = self._known.pop(topic, None)
            self._latest = None
            if known is not None:
                self._seal(known.batches, 0)

    def topics(self) -> list[str]:
        """Return the topics in the table."""
        return list(self._known)

    def partition_count(self, topic: str) -> int:
        """Return the number of partitions of *topic*; 0 if it is not in the table."""
        known = self._known.get(topic)
        return 0 if known is None else int(known.count)

    def sticky_partition(self, topic: str) -> int:
        """Return the partition that records of *topic* without a key go to now."""
        known = self._known.get(topic)
        return 0 if known is None else int(known.sticky)

    def set_sticky_partition(self, topic: str, partition: int) -> None:
        """Send records of *topic* without a key to *partition* from now on."""
        with self._lock:
            known = self._known.get(topic)
            if known is not None and partition < known.count:
                known.sticky = partition

    def current_batch(self, topic: str, partition: int) -> B | None:
        """Return the batch under construction."""
        known = self._known.get(topic)
        if known is None or partition >= known.count:
            return None
        batch: B | None = known.batches[partition]
        return batch

    def begin_batch(
        self,
        topic: str,
        partition: int,
        created: float,
        announce: Callable[[B], object] | None = None,
    ) -> B | None:
        """Seal the batch under construction and begin another, whose memory is charged.

        Return None if the topic has no such partition (any more), or if a signal handler has just begun a
        batch there. *announce* is called with the batch before any record can get into it: if Ctrl-C
        interrupts in between, that leaves an empty batch that somebody knows of, never records that nobody
        knows of.
        """
        with self._lock:
            known = self._known.get(topic)
            if known is None or partition >= known.count:
                return None
            before = known.batches[partition]
            expected = known.expected_sizes[partition] if before is None else _expected_size(before)
            batch = self._new_batch(self._tracker, topic, partition, created, expected)
            if announce is not None:
                announce(batch)
            # After the announcement: release_memory corrects a charge that is too low.
            self._released -= BATCH_COST
            if known.batches[partition] is not before:
                return None
            if before is not None:
                before.sealed = True
            known.batches[partition] = batch
            self._open_batches += before is None
            return batch

    def seal_batch(self, batch: B) -> None:
        """Seal *batch*: its bytes do not change any more, and belong to the caller."""
        with self._lock:
            batch.sealed = True
            if self.current_batch(batch.topic, batch.partition) is batch:
                known = self._known[batch.topic]
                known.batches[batch.partition] = None
                known.expected_sizes[batch.partition] = _expected_size(batch)
                self._open_batches -= 1

    def limit_batch_size(self, topic: str, batch_size: int) -> None:
        """Limit batches of *topic* to *batch_size* bytes of records from now on, if that is less than
        before."""
        with self._lock:
            known = self._known.get(topic)
            if known is not None:
                known.batch_size = min(known.batch_size, batch_size)

    def release_memory(self, amount: int) -> None:
        """Free *amount* bytes of the memory that was charged."""
        with self._lock:
            self._released = min(self._released + amount, self._charged)

    def shut(self) -> None:
        """Decline every ``send`` from now on. Takes no lock: it must work in the child of a fork."""
        self._sendable = {}
        self._latest = None

    def _seal(self, batches: list[Any], first: int) -> None:
        """Seal the batches of the partitions from *first* on. The list keeps its length, for a ``send`` that
        has just looked the topic up."""
        for number, batch in enumerate(batches[first:], first):
            if batch is not None:
                batch.sealed = True
                batches[number] = None
                self._open_batches -= 1


def _expected_size(batch: Any) -> int:
    """Return the size that the next batch of the partition of *batch* is expected to get: the same, or half
    of what was expected of *batch*, because a batch that was sealed early says little."""
    return max(int(batch.size), int(batch.expected_size) // 2)
