"""Sends a record to each partition of several topics, again and again."""

import threading

from pyklient import Producer, TopicPartition

__all__ = ["Flow"]

_PATIENCE = 120.0


class Flow:
    """Sends a record to each partition in ``counts`` every *interval* seconds."""

    def __init__(self, bootstrap: str, interval: float) -> None:
        self._producer = Producer(bootstrap, delivery_timeout_ms=120_000)
        self.interval = interval
        self._counts: dict[TopicPartition, int] = {}
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="flow", daemon=True)

    def start(self) -> None:
        """Begin to send."""
        self._thread.start()

    @property
    def partitions(self) -> list[TopicPartition]:
        """The partitions that get records."""
        with self._lock:
            return list(self._counts)

    def add(self, topic: str, numbers: range) -> None:
        """Send records to more partitions."""
        with self._lock:
            self._counts.update({TopicPartition(topic, number): 0 for number in numbers})

    def burst(self, partition: TopicPartition, count: int) -> None:
        """Send *count* records to *partition* at once, if it still gets records."""
        with self._lock:
            if partition in self._counts:
                for _ in range(count):
                    self._send(partition)

    def drop(self, topic: str) -> None:
        """Send no more records to *topic*, and forget those that were sent."""
        with self._lock:
            for each in [each for each in self._counts if each.topic == topic]:
                del self._counts[each]
        self._producer.flush(timeout=_PATIENCE)

    def stop(self) -> dict[TopicPartition, int]:
        """Stop, and return the number of records of each partition. Raises DeliveryError if one is lost."""
        self._stopped.set()
        self._thread.join()
        self._producer.flush(timeout=_PATIENCE)
        self._producer.close()
        return self._counts

    def _send(self, partition: TopicPartition) -> None:
        self._producer.send(partition.topic, b"%d" % self._counts[partition], partition=partition.partition)
        self._counts[partition] += 1

    def _run(self) -> None:
        while not self._stopped.wait(self.interval):
            with self._lock:
                for each in self._counts:
                    self._send(each)
