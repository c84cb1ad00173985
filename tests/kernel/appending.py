"""An Appender for tests, and the records that a reader finds in its batches."""

from typing import Any

from pyklient.kernel import NO_FUNCTIONS, Batch, Delivery, UserFunctions, read_records
from pyklient.producer.delivery_tracker import DeliveryTracker
from pyklient.producer.threads.sender_thread import SenderThread
from pyklient.protocol.records import batch_header, iter_batches

__all__ = ["PLENTY", "Bench", "records_of"]

PLENTY = 1 << 30


class OwnThread(SenderThread):
    """A thread object that says that every caller is the sender."""

    def __init__(self) -> None:
        super().__init__("pyklient-producer test")

    def is_current(self) -> bool:
        return True


class Bench:
    """An Appender with a fixed clock that records the calls that it declined."""

    def __init__(
        self,
        kernel: Any,
        *,
        functions: UserFunctions = NO_FUNCTIONS,
        batch_size: int = 10_000,
        limit: int = PLENTY,
        own_thread: bool = False,
    ) -> None:
        self.now_ms = 1_000_000
        self.declined: list[tuple[Any, ...]] = []
        self.tracker = DeliveryTracker(OwnThread() if own_thread else SenderThread("pyklient-producer test"))
        self.appender = kernel.Appender(
            self._decline,
            self.tracker,
            lambda: self.now_ms * 1_000_000,
            batch_size=batch_size,
            memory_limit=limit,
            functions=functions,
        )
        self._elsewhere = kernel.Batch(self.tracker, "elsewhere", 0, 0.0)
        self.nowhere: Delivery = kernel.Delivery(self._elsewhere, 0, 0)

    def open(self, partitions: int = 1, topic: str = "clicks") -> Batch:
        """Make a topic with a batch under construction in each partition. Return the first batch."""
        self.appender.set_partitions(topic, partitions)
        batches: list[Batch | None] = [
            self.appender.begin_batch(topic, number, 0.0) for number in range(partitions)
        ]
        assert batches[0] is not None
        return batches[0]

    def _decline(self, *arguments: Any) -> Delivery:
        self.declined.append(arguments)
        return self.nowhere


def records_of(batch: Batch) -> list[tuple[int, bytes | None, bytes | None, Any]]:
    """Return the records of a batch as a reader gets them."""
    payload = batch.payload()
    header = batch_header(
        payload,
        count=batch.count,
        base_timestamp=batch.base_timestamp,
        max_timestamp=batch.max_timestamp,
    )
    (decoded,) = iter_batches(header + payload)
    decoded.verify()
    return [(one.timestamp_ms, one.key, one.value, one.headers) for one in read_records(decoded)]
