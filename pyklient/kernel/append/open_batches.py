"""The topics to which records can be appended, their batches under construction, and the memory of these
batches.

Both kernels share this part of an Appender. Nothing here runs once per record.
"""

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from pyklient.kernel.append.delivery_reports import DeliveryState, Tracker

__all__ = [
    "BATCH_COST",
    "CALLBACK_COST",
    "LARGE_CAPACITY",
    "LEAST_CAPACITY",
    "NEVER_CHOSEN",
    "OpenBatches",
    "capacity_for",
]

BATCH_COST: Final = 3584
"""The memory in bytes that is charged for a batch, in addition to its records. It stands for objects of the
kernel (1 KiB), of the sender and of the partition."""

CALLBACK_COST: Final = 400
"""The memory in bytes that is charged for a callback. It stands for the Delivery that the callback gets, the
entry in the batch, and a closure."""

LEAST_CAPACITY: Final = 256
LARGE_CAPACITY: Final = 32 * 1024

NEVER_CHOSEN: Final = 1 << 62
"""The value of ``sticky_bytes`` for a topic whose sticky partition was not chosen yet. It is above every
size, so that the partition is chosen before the first record without a key."""

B = TypeVar("B", bound=DeliveryState)


def capacity_for(have: int, needed: int, expected: int, most: int, free_memory: int, share: int) -> int:
    """Return the new capacity in bytes of a batch that has *have* bytes of memory and needs *needed*.

    Usually the capacity doubles: larger steps would waste memory if there are many partitions. There are two
    exceptions, because moving a large batch is expensive. Both are limited by *share*, which is *free_memory*
    divided by the number of open batches. A new batch gets the *expected* size at once, if that is at most
    *share*; otherwise it gets a quarter of *share*, so that new batches do not use up memory that they will
    not need soon. A large batch grows eightfold, but by *share* at most.

    *most* is the usual limit of the capacity: the result is above *most* only if *needed* is. If
    *free_memory* is too small for the step, the batch gets about half of *free_memory*, so that it need not
    grow often.
    """
    wanted = max(2 * have, LEAST_CAPACITY)
    if have >= LARGE_CAPACITY:
        wanted = max(wanted, min(8 * have, have + share))
    elif not have:
        wanted = max(wanted, expected if expected <= share else share // 4)
    wanted = max(min(wanted, most), needed)
    if wanted - have > free_memory:
        wanted = max(needed, have + max(free_memory // 2, min(free_memory, have // 2)))
    return wanted


class OpenBatches(Generic[B]):
    """The part of an Appender that stores topics and open batches, and accounts for memory. The other part,
    in the kernel, appends records.

    In the compiled kernel, the other part acquires no lock, so that both parts may run at the same time in
    different threads. Therefore a batch is sealed before the sender gets it, and the kernel checks each
    partition count that it reads from this part.
    """

    OVERHEAD: Final = BATCH_COST + CALLBACK_COST
    """The memory in bytes that a record with a callback needs in addition to its own size if it begins a
    batch."""

    NEVER_CHOSEN: Final = NEVER_CHOSEN

    def __init__(
        self,
        tracker: Tracker,
        batch_size: int,
        memory_limit: int,
        new_topic: Callable[[int], Any],
        new_batch: Callable[[Tracker, str, int, float, int], B],
    ) -> None:
        self.memory_limit = memory_limit
        """The number of bytes of memory above which ``send`` does not append a record but calls ``decline``.
        While a caller waits for memory, this limit is lower, so that later callers do not get memory before
        that caller."""
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
        self._sendable: dict[str, Any] = self._known
        # The topic that the kernel's half looked up last, if it remembers that.
        self._latest: Any = None

    @property
    def used_memory(self) -> int:
        """The memory in bytes that is charged for batches whose records do not all have a result yet."""
        return self._charged - self._released

    def set_partitions(self, topic: str, partitions: int) -> None:
        """Set the number of partitions of *topic*. The topic may be new, may have grown, or may have been
        recreated with fewer partitions."""
        with self._lock:
            known = self._known.get(topic) or self._new_topic(self._batch_size)
            self._seal(known.batches, partitions)
            known.batches += [None] * (partitions - len(known.batches))
            known.expected_sizes += [0] * (partitions - len(known.expected_sizes))
            known.count = partitions
            known.sticky = min(known.sticky, partitions - 1)
            self._known[topic] = known

    def remove_topic(self, topic: str) -> None:
        """Remove *topic*. Its batches under construction accept no more records."""
        with self._lock:
            known = self._known.pop(topic, None)
            self._latest = None
            if known is not None:
                self._seal(known.batches, 0)

    def topics(self) -> list[str]:
        """Return the topics to which records can be appended."""
        return list(self._known)

    def partition_count(self, topic: str) -> int:
        """Return the number of partitions of *topic*; 0 if records cannot be appended to it."""
        known = self._known.get(topic)
        return 0 if known is None else int(known.count)

    def sticky_partition(self, topic: str) -> int:
        """Return the partition to which records of *topic* without a key are sent at present."""
        known = self._known.get(topic)
        return 0 if known is None else int(known.sticky)

    def set_sticky_partition(self, topic: str, partition: int) -> None:
        """Send records of *topic* without a key to *partition* from now on."""
        with self._lock:
            known = self._known.get(topic)
            if known is not None and partition < known.count:
                known.sticky = partition
                known.sticky_bytes = 0

    def sticky_bytes(self, topic: str) -> int:
        """Return the size in bytes of all batches of *topic*'s sticky partition that were sealed since this
        partition was chosen. Records with a key count too. If no partition was chosen yet, return
        NEVER_CHOSEN."""
        known = self._known.get(topic)
        return 0 if known is None else int(known.sticky_bytes)

    def current_batch(self, topic: str, partition: int) -> B | None:
        """Return the batch under construction of a partition; None if there is none."""
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
        """Seal the batch under construction of a partition. Begin another batch, charge its memory, and
        return it.

        Return None if the topic does not have that partition (any more), or if a signal handler that
        interrupted this call has begun a batch for the partition. *announce* is called with the new batch
        before any record can be appended to it. So if Ctrl-C interrupts this call, the sender may know a
        batch without records, but it knows every batch with records.
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
                _count_sticky(known, before)
            known.batches[partition] = batch
            self._open_batches += before is None
            return batch

    def seal_batch(self, batch: B) -> None:
        """Seal *batch*, so that its bytes do not change any more and the caller may send them."""
        with self._lock:
            batch.sealed = True
            if self.current_batch(batch.topic, batch.partition) is batch:
                known = self._known[batch.topic]
                known.batches[batch.partition] = None
                known.expected_sizes[batch.partition] = _expected_size(batch)
                _count_sticky(known, batch)
                self._open_batches -= 1

    def limit_batch_size(self, topic: str, batch_size: int) -> None:
        """Limit batches of *topic* to *batch_size* bytes of records from now on, unless the limit is already
        lower."""
        with self._lock:
            known = self._known.get(topic)
            if known is not None:
                known.batch_size = min(known.batch_size, batch_size)

    def release_memory(self, amount: int) -> None:
        """Release *amount* bytes of the memory that was charged for batches."""
        with self._lock:
            self._released = min(self._released + amount, self._charged)

    def shut(self) -> None:
        """Make ``send`` decline every record from now on, until ``open`` is called. Acquires no lock, because
        it must work in a child process after a fork."""
        self._sendable = {}
        self._latest = None

    def open(self) -> None:
        """Accept records again after ``shut``."""
        self._sendable = self._known

    def _seal(self, batches: list[Any], first: int) -> None:
        """Seal the batches under construction in *batches* whose partition is *first* or higher, and replace
        each of them by None. The index of a batch in the list is its partition.

        The list keeps its length, because a ``send`` in another thread may be using it.
        """
        for number, batch in enumerate(batches[first:], first):
            if batch is not None:
                batch.sealed = True
                batches[number] = None
                self._open_batches -= 1


def _count_sticky(known: Any, batch: Any) -> None:
    """Add the size of *batch*, which was just sealed, to the ``sticky_bytes`` of its topic *known*, if the
    partition of the batch is the topic's sticky partition."""
    if batch.partition == known.sticky:
        known.sticky_bytes += batch.size


def _expected_size(batch: Any) -> int:
    """Return the size in bytes that the next batch of the same partition is expected to reach: the size of
    *batch*.

    The result is never less than half of the size that was expected of *batch*, because *batch* may have been
    sealed early by chance.
    """
    return max(int(batch.size), int(batch.expected_size) // 2)
