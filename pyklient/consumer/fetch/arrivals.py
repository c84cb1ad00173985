"""The batches of a fetch response on their way from a fetcher to the queues of the streams.

A fetcher puts the batches of many partitions into a queue at once. If the fetcher locked the queue for each
partition, while a loop locks it for the few messages of each partition, the two threads would often wait for
each other. Such a wait takes longer than the work that it delays.
"""

from typing import Final

from pyklient.consumer.fetch.fetch_budget import FetchBudget
from pyklient.consumer.fetch.fetch_position import FetchedBatches
from pyklient.consumer.fetch.fetch_queue import FetchQueue

__all__ = ["Arrivals"]

_ENOUGH: Final = 16 << 10
"""The number of gathered bytes at which they are queued. It is so small that a loop can soon begin to read,
and so large that partitions with few records are queued many at a time."""


class Arrivals:
    """Gathers the batches of one response. The fetcher's thread uses it. *budget* is told which cursors have
    queued bytes."""

    def __init__(self, budget: FetchBudget) -> None:
        self._budget = budget
        self._gathered: dict[FetchQueue, list[FetchedBatches]] = {}
        self._bytes = 0

    def add(self, queue: FetchQueue, fetched: list[FetchedBatches]) -> None:
        """Put *fetched* into *queue*, now or when :meth:`queue_all` is called."""
        self._gathered.setdefault(queue, []).extend(fetched)
        self._bytes += sum([each.size for each in fetched])
        if self._bytes >= _ENOUGH:
            self.queue_all()

    def queue_all(self) -> None:
        """Put all gathered batches into their queues."""
        gathered, self._gathered, self._bytes = self._gathered, {}, 0
        for queue, fetched in gathered.items():
            queue.put(fetched)
            for each in fetched:
                self._budget.note_fetched(each.cursor)
