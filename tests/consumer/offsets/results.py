"""A database with results and an offset store, and connectors that use it."""

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pyklient import ConsumerConnector, KafkaStream, Message, OffsetStore
from pyklient.offset_stores import SQLiteOffsetStore
from tests.consumer.feed import Feed

__all__ = ["NUMBERS", "Results", "connect", "read_some"]

NUMBERS = [str(number) for number in range(10)]


class Results:
    """A database with a table of results, which may contain a message more than once."""

    def __init__(self, path: Path) -> None:
        self.store = SQLiteOffsetStore(path)
        self.database = sqlite3.connect(path)
        self.database.execute("PRAGMA synchronous = OFF")
        self.database.execute("CREATE TABLE results (partition, value)")

    def save(self, stream: KafkaStream, messages: Iterable[Message], *, commit: bool = True) -> None:
        """Store *messages* and the positions of *stream* in one transaction. Roll it back instead if *commit*
        is false."""
        try:
            rows = [(each.partition, each.value.decode()) for each in messages]
            self.database.executemany("INSERT INTO results VALUES (?, ?)", rows)
            stream.save_offsets(self.database)
        except BaseException:
            self.database.rollback()
            raise
        if commit:
            self.database.commit()
        else:
            self.database.rollback()

    def values(self, partition: int = 0) -> list[str]:
        found = self.database.execute("SELECT value FROM results WHERE partition = ?", (partition,))
        return [value for (value,) in found]


def connect(feed: Feed, store: OffsetStore | None, **options: Any) -> ConsumerConnector:
    given: dict[str, Any] = {"group_id": "g", "auto_offset_reset": "earliest", "fetch_max_wait_ms": 10}
    return ConsumerConnector(feed.bootstrap_servers, offset_store=store, **(given | options))


def read_some(stream: KafkaStream, count: int) -> list[Message]:
    """Return the next *count* messages, in a loop that ends then."""
    batches = stream.batches(1)
    found: list[Message] = []
    while len(found) < count:
        found += next(batches)
    batches.close()
    return found
