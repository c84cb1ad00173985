"""Streaming queries in tests: they are started, waited for, and record the rows that they have read."""

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
    """One query, which is started again and again from the same checkpoint. ``batches`` are the rows of each
    micro-batch that has been committed, by its id."""

    def __init__(self, spark: SparkSession, bootstrap: str, checkpoint: Path, **options: object) -> None:
        self.batches: dict[int, list[Row]] = {}
        self.checkpoint = checkpoint
        self.before_batch: Callable[[int], None] = lambda _: None
        self._spark = spark
        self._options = {"kafka.bootstrap.servers": bootstrap, **options}

    @property
    def reader(self) -> DataStreamReader:
        """Return the reader of the query."""
        reader = self._spark.readStream.format("pyklient")
        for name, value in self._options.items():
            text = json.dumps(value) if isinstance(value, dict) else str(value)
            reader = reader.option(name.replace("__", "."), text)
        return reader

    def start(self, **trigger: Any) -> StreamingQuery:
        """Start the query, with a *trigger* or without one."""
        writer = self.reader.load().writeStream.option("checkpointLocation", str(self.checkpoint))
        return writer.foreachBatch(self._take).trigger(**(trigger or {"processingTime": "0 seconds"})).start()

    @contextmanager
    def running(self, **trigger: Any) -> Iterator[StreamingQuery]:
        """Run the query during the ``with`` block."""
        query = self.start(**trigger)
        try:
            yield query
        finally:
            query.stop()

    def drain(self) -> list[int]:
        """Read all rows that exist now, and end. Return the numbers that all runs have read, sorted."""
        query = self.start(availableNow=True)
        assert query.awaitTermination(_PATIENCE), query.status
        return self.numbers

    @property
    def numbers(self) -> list[int]:
        """The values of all rows, as numbers, sorted."""
        return sorted(int(row.value) for rows in self.batches.values() for row in rows)

    def offsets(self, batch: int) -> dict[str, dict[str, int]]:
        """Return the offsets at which micro-batch *batch* ends, from the checkpoint."""
        found: dict[str, dict[str, int]] = json.loads(
            (self.checkpoint / "offsets" / str(batch)).read_text().splitlines()[-1]
        )
        return found

    def _take(self, rows: DataFrame, batch: int) -> None:
        self.before_batch(batch)
        self.batches[batch] = rows.collect()
