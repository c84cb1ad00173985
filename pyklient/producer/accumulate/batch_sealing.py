"""Seals the batches of a producer. A sealed batch accepts no more records, so that it can be compressed and
sent.

This module seals a batch for one of these reasons, each in its own method of ``BatchSealer``:

- The next record does not fit into the batch, or one record has filled it.
- The next records go to another partition, or a mirror sends a whole batch.
- ``flush`` or ``close`` was called, or memory is short and ``linger_ms`` has not passed.
- ``linger_ms`` has passed since the batch was begun, and the sender sends the batch.
- The batch has failed.

There is one exception: if the partitions of a topic change, the kernel seals the batches of partitions that
no longer exist (``pyklient.kernel.append.open_batches``).
"""

from collections import deque
from collections.abc import Callable, Iterable

from pyklient.kernel import Appender, Batch

__all__ = ["BatchSealer"]


class BatchSealer:
    """Seals the batches into which *appender* appends records. *batch_size* is in bytes, *linger* in seconds.

    A method that makes batches due adds them to ``due_batches``. The caller then wakes the sender.
    """

    def __init__(self, appender: Appender, batch_size: int, linger: float) -> None:
        self.linger = linger
        self.due_batches: deque[Batch] = deque()
        """Batches that the sender is to send at once, because they were sealed before ``linger`` had passed,
        for example by ``flush``."""
        self._appender = appender
        self._batch_size = batch_size

    def seal(self, batch: Batch) -> None:
        """Seal *batch*, because the sender sends it now, or because it has failed."""
        # Also if it is sealed: Ctrl-C may have interrupted the thread that sealed it, so that records could
        # still be appended to it.
        appender = self._appender
        if not batch.sealed or appender.current_batch(batch.topic, batch.partition) is batch:
            appender.seal_batch(batch)

    def seal_early(self, batch: Batch) -> None:
        """Seal *batch* and make it due, because no more records follow for it."""
        self._appender.seal_batch(batch)
        self.due_batches.append(batch)

    def seal_and_begin(
        self, topic: str, partition: int, created: float, announce: Callable[[Batch], object]
    ) -> Batch | None:
        """Seal the open batch of a partition, because the next record does not fit into it. Begin another
        batch, and return it.

        The arguments and the result are those of ``Appender.begin_batch``.
        """
        return self._appender.begin_batch(topic, partition, created, announce)

    def seal_if_full(self, batch: Batch) -> None:
        """Seal *batch*, which was just begun, if its first record has filled it."""
        if batch.size >= self._batch_size:
            self._appender.seal_batch(batch)

    def seal_for_memory(self, open_batches: Iterable[Batch], now: float) -> None:
        """Seal *open_batches* and make them due, because memory is short. Batches whose ``linger`` has passed
        at the time *now* are due already. They stay open until the sender sends them."""
        for batch in open_batches:
            if batch.created + self.linger > now:
                self.seal_early(batch)

    def seal_for_flush(self, unfinished: Iterable[Batch]) -> None:
        """Seal the open batches among *unfinished*, because ``flush`` or ``close`` was called. Make only the
        last batch of each partition due: the sender then checks the whole partition."""
        last: dict[tuple[str, int], Batch] = {}
        for batch in unfinished:
            if not batch.sealed:
                self._appender.seal_batch(batch)
            last[batch.topic, batch.partition] = batch
        self.due_batches.extend(last.values())
