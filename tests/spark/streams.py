"""Streaming queries in tests: started, waited for, and what they have read."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamReader

__all__ = ["Stream"]

_PATIENCE = 90


class Stream:
    """One query, again and again from the same checkpoint. ``batches`` are the rows of each micro-batch that
    has been committed, by its id."""

    def __init__(self, spark: SparkSession, bootstrap: str, checkpoint: Path, **options: object) -> None:
        self.batches: dict[int, list[Row]] = {}
        self.checkpoint = checkpoint
        self.before_batch: Callable[[int], None] = lambda _: None
        self._spark = spark
        self._options = {"kafka.bootstrap.servers": bootstrap, **options}

    @property
    def reader(self) -> DataStreamReader:
        """What the query reads with."""
        reader = self._spark.readStream.format("pyklient")
        for name, value in self._options.items():
            text = json.dumps(value) if isinstance(value, dict) else str(value)
            reader = reader.option(name.replace("__", "."), text)
        return reader

    def start(self, **trigger: Any) -> StreamingQuery:
        """Start the query, as often as it likes or by a *trigger*."""
        writer = self.reader.load().writeStream.option("checkpointLocation", str(self.checkpoint))
        return writer.foreachBatch(self._take).trigger(**(trigger or {"processingTime": "0 seconds"})).start()

    @contextmanager
    def running(self, **trigger: Any) -> Iterator[StreamingQuery]:
        """The query, for the time of the ``with`` block."""
        query = self.start(**trigger)
        try:
            yield query
        finally:
            query.stop()

    def drain(self) -> list[int]:
        """All there is now, to its end. → the numbers that all runs have read, sorted."""
        query = self.start(availableNow=True)
        assert query.awaitTermination(_PATIENCE), query.status
        return self.numbers

    @property
    def numbers(self) -> list[int]:
        """The values of all rows, as numbers, sorted."""
        return sorted(int(row.value) for rows in self.batches.values() for row in rows)

    def offsets(self, batch: int) -> dict[str, dict[str, int]]:
        """Where the checkpoint says that micro-batch *batch* ends."""
        found: dict[str, dict[str, int]] = json.loads(
            (self.checkpoint / "offsets" / str(batch)).read_text().splitlines()[-1]
        )
        return found

    def _take(self, rows: DataFrame, batch: int) -> None:
        self.before_batch(batch)
        self.batches[batch] = rows.collect()
