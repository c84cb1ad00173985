"""The state that the leader lookup and the fetchers pass to each other for each partition."""

from collections.abc import Iterable

from pyklient.consumer.fetch.fetch_position import Cursor
from pyklient.consumer.fetch.fetch_queue import FetchQueue

__all__ = ["FetchedPartition", "within_queues"]


class FetchedPartition:
    """A cursor, the queue of the stream that reads its partition, and the pause after failed fetches.

    A FetchedPartition belongs to the same thread as its cursor: the fetcher of the leader, or the leader
    lookup.
    """

    __slots__ = ("cursor", "failures", "queue", "retry_at")

    def __init__(self, cursor: Cursor, queue: FetchQueue) -> None:
        self.cursor = cursor
        self.queue = queue
        self.failures = 0
        """The number of fetches that have failed in a row."""
        self.retry_at = 0.0
        """The time from which the partition may be fetched again, in seconds of ``time.monotonic``."""

    def __repr__(self) -> str:
        return f"<FetchedPartition of {self.cursor!r}>"


def within_queues(states: Iterable[FetchedPartition]) -> list[FetchedPartition]:
    """Return those of *states* whose queues have space for at least one chunk.

    All partitions of such a queue are fetched together. A response may then bring one chunk of each
    partition, which may be more chunks than the queue has space for. But the fetcher does not know which
    partitions have new records. If it fetched only some partitions, these might have no new records.
    """
    states = list(states)
    with_space = {queue for queue in {state.queue for state in states} if queue.has_space_for_a_chunk()}
    return [state for state in states if state.queue in with_space]
