"""An Appender that appends whatever fits, and shows the batches that it has made."""

import threading
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from pyklient.errors import KafkaError

__all__ = ["PARTITIONS", "Mill", "Row", "Tracker"]

PARTITIONS: Final = 3


class Tracker:
    """A tracker that no caller waits for."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def wait(self, batch: Any, timeout: float | None) -> bool:
        return bool(batch.done)

    def unseen(self, batch: Any, change: int, error: KafkaError) -> None: ...


class Mill:
    """An Appender whose declined calls begin batches, and change the sticky partition each time."""

    def __init__(self, kernel: Any, batch_size: int, memory: int) -> None:
        self.kernel = kernel
        self.memory = memory
        self.batches: list[Any] = []
        self.appender = kernel.Appender(
            self._admit,
            Tracker(),
            lambda: 7_000_000_000,
            batch_size=batch_size,
            memory_limit=memory,
        )
        self.appender.set_partitions("t", PARTITIONS)

    def _admit(
        self, topic: str, value: Any, key: Any, partition: Any, time_ms: Any, headers: Any, heard: Any
    ) -> Any:
        if partition is None:
            if key is None:
                self.appender.set_sticky_partition(
                    topic, (self.appender.sticky_partition(topic) + 1) % PARTITIONS
                )
            number = (
                self.appender.sticky_partition(topic)
                if key is None
                else self.kernel.murmur2(key) % PARTITIONS
            )
        else:
            number = partition
        if not 0 <= number < PARTITIONS or (time_ms is not None and time_ms < 0):
            raise ValueError(f"refused: {partition}, {time_ms}")
        if self.appender.used_memory > self.memory:
            raise KafkaError("full")
        self.batches.append(self.appender.begin_batch(topic, number, 0.0))
        time_ms = 7_000 if time_ms is None else time_ms
        return self.appender.append(topic, number, value, key, time_ms, headers, heard, 1 << 40)

    def send_row_by_row(self, rows: Sequence["Row"]) -> Any:
        """Send *rows* until one cannot be sent. Return their number and their positions in batches."""
        places = []
        try:
            for row in rows:
                delivery = self.appender.send(
                    "t", row.value, row.key, row.partition, row.time_ms, row.headers
                )
                places.append((self.batches.index(delivery.batch_and_index[0]), delivery.batch_and_index[1]))
        except (KafkaError, ValueError) as error:
            return sorted(places), str(error), self.state()
        return sorted(places), "", self.state()

    def send_columns(self, rows: Any, calls: list[Any]) -> Any:
        """Do the same with columns. The result of each call is added to *calls*."""
        places = []
        done = 0
        try:
            while done < rows.count:
                taken, runs = self.kernel.append_rows(self.appender, "t", rows, done)
                if not taken:
                    batch, index = self.appender.send("t", *rows.row(done)).batch_and_index
                    taken, runs = 1, [(batch, index, index + 1)]
                calls.append((taken, [(self.batches.index(batch), *run) for batch, *run in runs]))
                places += [(self.batches.index(batch), at) for batch, *run in runs for at in range(*run)]
                done += taken
        except (KafkaError, ValueError) as error:
            return sorted(places), str(error), self.state()
        return sorted(places), "", self.state()

    def state(self) -> Any:
        return self.appender.used_memory, [
            (
                batch.partition,
                batch.count,
                batch.size,
                batch.charged,
                batch.base_timestamp,
                batch.max_timestamp,
                bytes(batch.payload()),
            )
            for batch in self.batches
        ]


class Row(NamedTuple):
    value: bytes | None
    key: bytes | None
    partition: int | None
    time_ms: int | None
    headers: tuple[tuple[str, bytes | None], ...] | None
