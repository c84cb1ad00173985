"""The topics that records can be sent to, and their batches under construction: what both kernels have in
common of an Appender. Nothing here runs once per record."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pyklient.kernel.delivery_reports import Desk

if TYPE_CHECKING:
    from pyklient.kernel._append_py import Batch

__all__ = ["BATCH_COST", "LARGE_CAPACITY", "LEAST_CAPACITY", "LISTENER_COST", "Register", "capacity_for"]

BATCH_COST: Final = 3584
"""Memory that a batch takes beside its records: the objects here (1 KiB), those that carry it to the broker,
and those of its partition."""

LISTENER_COST: Final = 400
"""Memory of a Delivery that a callback keeps alive, its place in the batch, and a closure: most are one."""

LEAST_CAPACITY: Final = 256
LARGE_CAPACITY: Final = 32 * 1024


def capacity_for(have: int, needed: int, known: Any, free_memory: int) -> int:
    """Return how many bytes of memory a batch of the topic *known* gets that has *have*, and needs *needed*.

    All of it is charged. So it doubles: with many partitions, more would leave most of the memory unused. A
    large batch grows up to eightfold, to be moved seldom, where all partitions together could do that. The
    last of the memory is halved with each move, so that few moves are small.
    """
    wanted = max(2 * have, LEAST_CAPACITY)
    if have >= LARGE_CAPACITY:
        wanted = max(wanted, min(8 * have, have + free_memory // (4 * max(known.count, 1))))
    wanted = max(min(wanted, known.batch_size), needed)
    if wanted - have > free_memory:
        wanted = max(needed, have + free_memory // 2)
    return wanted


class Register:
    """Half of an Appender. The kernel's half takes records in.

    Both halves may run at the same time in different threads, where the kernel's takes no lock: so a batch
    is closed before anybody else gets it, and the numbers of partitions that the kernel finds here are to
    be checked by it.
    """

    OVERHEAD: Final = BATCH_COST + LISTENER_COST
    """What is charged beside its bytes for a record that begins a batch and has a callback."""

    # The kernel's half has these, as it looks at them for each record.
    limit: int
    """Memory above which ``send`` declines. Lowered while somebody waits for memory, so that nobody
    overtakes."""
    _taken: int
    _freed: int
    _known: dict[str, Any]
    _topics: dict[str, Any]
    _latest: Any
    """The topic that was looked up last, where the kernel's half remembers it."""

    def __init__(
        self,
        desk: Desk,
        batch_size: int,
        new_topic: Callable[[int], Any],
        new_batch: "Callable[[Desk, str, int, float], Batch]",
    ) -> None:
        self._desk = desk
        self._lock = desk.lock
        self._batch_size = batch_size
        self._new_topic = new_topic
        self._new_batch = new_batch

    @property
    def used(self) -> int:
        """Memory charged for batches that are not done yet."""
        return self._taken - self._freed

    def know(self, topic: str, partitions: int) -> None:
        """*topic* has so many partitions: it is new here, or has grown, or was made again with fewer."""
        with self._lock:
            known = self._known.get(topic) or self._new_topic(self._batch_size)
            _close(known.batches, partitions)
            known.batches += [None] * (partitions - len(known.batches))
            known.count = partitions
            known.sticky = min(known.sticky, partitions - 1)
            self._known[topic] = known

    def forget(self, topic: str) -> None:
        """*topic* is gone; its batches under construction take no more records."""
        with self._lock:
            known = self._known.pop(topic, None)
            self._latest = None
            if known is not None:
                _close(known.batches, 0)

    def topics(self) -> list[str]:
        """The topics it knows."""
        return list(self._known)

    def partition_count(self, topic: str) -> int:
        """How many partitions *topic* has; 0 where it is not known."""
        known = self._known.get(topic)
        return 0 if known is None else int(known.count)

    def sticky(self, topic: str) -> int:
        """Where records of *topic* without a key go at the moment."""
        known = self._known.get(topic)
        return 0 if known is None else int(known.sticky)

    def stick(self, topic: str, partition: int) -> None:
        """Records of *topic* without a key go to *partition* from now on."""
        with self._lock:
            known = self._known.get(topic)
            if known is not None and partition < known.count:
                known.sticky = partition

    def current(self, topic: str, partition: int) -> "Batch | None":
        """The batch under construction."""
        known = self._known.get(topic)
        if known is None or partition >= known.count:
            return None
        batch: Batch | None = known.batches[partition]
        return batch

    def open(
        self,
        topic: str,
        partition: int,
        created: float,
        announce: "Callable[[Batch], object] | None" = None,
    ) -> "Batch | None":
        """Close the batch under construction and begin another, which is charged for. None where the topic
        has no such partition (any more), or a handler of a signal has just begun one there.

        *announce* hears of the batch before any record can get into it: were Ctrl-C to come in between, it
        would be an empty batch that somebody looks after, not records that nobody does.
        """
        with self._lock:
            known = self._known.get(topic)
            if known is None or partition >= known.count:
                return None
            before = known.batches[partition]
            batch = self._new_batch(self._desk, topic, partition, created)
            if announce is not None:
                announce(batch)
            self._freed -= BATCH_COST  # after that: too little charged mends itself, see release
            if known.batches[partition] is not before:
                return None
            if before is not None:
                before.closed = True
            known.batches[partition] = batch
            return batch

    def take(self, batch: "Batch") -> None:
        """Close *batch*: its bytes do not change any more, and belong to the caller."""
        with self._lock:
            batch.closed = True
            if self.current(batch.topic, batch.partition) is batch:
                self._known[batch.topic].batches[batch.partition] = None

    def shrink(self, topic: str, batch_size: int) -> None:
        """Batches of *topic* have *batch_size* bytes of records at most from now on, if that is less."""
        with self._lock:
            known = self._known.get(topic)
            if known is not None:
                known.batch_size = min(known.batch_size, batch_size)

    def release(self, amount: int) -> None:
        """Memory that is free again."""
        with self._lock:
            self._freed = min(self._freed + amount, self._taken)

    def shut(self) -> None:
        """Decline every ``send`` from now on. Takes no lock: it must work in the child of a fork."""
        self._topics = {}
        self._latest = None


def _close(batches: "list[Batch | None]", first: int) -> None:
    """Close the batches of the partitions from *first* on. Their places stay, for a ``send`` that has just
    looked the topic up."""
    for number, batch in enumerate(batches[first:], first):
        if batch is not None:
            batch.closed = True
            batches[number] = None
