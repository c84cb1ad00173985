"""A program that stores messages in a database, with their positions, until it is killed.

``python -m tools.offset_stores.worker JOB``: *JOB* is the JSON of a Job. The program appends a line to its
log for each transaction: the id of the process, and ``stored``, ``fenced`` or ``failed``, with the error.
"""

import json
import os
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from pyklient import ConsumerConnector, KafkaStream, OffsetStoreFencedError
from pyklient.offset_stores import OffsetStore, PostgresOffsetStore, SQLiteOffsetStore

__all__ = ["OPTIONS", "Job", "offset_store"]

_MOST = 100
_LOCKED = 60.0
"""The longest wait for a lock of SQLite, in which other programs overtake the one that waits."""
_WORK = 0.24
"""The number of seconds that a program spends on a batch at least, so that messages are left until the last
moment of a run."""
_LOCKING = 0.03
"""The part of ``_WORK`` that a program spends in its transaction with SQLite, while no other program can
store anything. With PostgreSQL, it spends all of it there."""
OPTIONS: dict[str, Any] = {
    "auto_offset_reset": "earliest",
    "session_timeout_ms": 700,
    "heartbeat_interval_ms": 100,
    "rebalance_timeout_ms": 3_000,
    "fetch_max_wait_ms": 50,
}


class Job(NamedTuple):
    """What a program does: store the messages of *topic* in *database*, as a member of the group *topic*."""

    bootstrap: str
    topic: str
    database: str
    """The path of a SQLite database, or how to connect to PostgreSQL."""
    log: str
    arrow: bool = False
    hold: str = ""
    """The path of a file. While it exists, the program waits in its transaction before it saves positions."""


def offset_store(address: str) -> OffsetStore:
    """Return the offset store in the database at *address*."""
    if address.endswith(".db"):
        return SQLiteOffsetStore(address, timeout=_LOCKED)
    return PostgresOffsetStore(address)


class Database:
    """The connection of a program to its database."""

    def __init__(self, address: str) -> None:
        self._postgres = None if address.endswith(".db") else psycopg.connect(address, autocommit=True)
        self._sqlite = None if self._postgres else sqlite3.connect(address, timeout=_LOCKED)
        self.connection: Any = self._postgres or self._sqlite
        self.store = offset_store(address)
        self._mark = "%s" if self._postgres else "?"
        self.in_transaction = _WORK if self._postgres else _LOCKING
        """The number of seconds of ``_WORK`` that a program spends in its transaction."""

    def transaction(self) -> AbstractContextManager[Any]:
        """Begin a transaction that an exception rolls back."""
        return self._postgres.transaction() if self._postgres else self.connection

    def insert(self, rows: list[tuple[int, int]]) -> None:
        """Store the partition and the offset of each message."""
        text = f"INSERT INTO results VALUES ({self._mark}, {self._mark})"
        self.connection.cursor().executemany(text, rows)


def _rows(stream: KafkaStream, *, arrow: bool) -> Iterator[list[tuple[int, int]]]:
    """Yield the partitions and offsets of each batch."""
    if not arrow:
        for batch in stream.batches(_MOST, timeout=None):
            yield [(each.partition, each.offset) for each in batch]
        return
    for columns in stream.arrow_batches(_MOST, timeout=None):
        partitions, offsets = (columns.column(name).to_pylist() for name in ("partition", "offset"))
        yield list(zip(partitions, offsets, strict=True))


def main() -> None:
    job, pid = Job(**json.loads(sys.argv[1])), os.getpid()
    database = Database(job.database)
    with (
        Path(job.log).open("a", buffering=1) as log,
        ConsumerConnector(
            job.bootstrap, group_id=job.topic, offset_store=database.store, **OPTIONS
        ) as connector,
    ):
        stream = connector.stream(job.topic)
        for rows in _rows(stream, arrow=job.arrow):
            time.sleep(_WORK - database.in_transaction)
            try:
                with database.transaction():
                    database.insert(rows)
                    time.sleep(database.in_transaction)
                    if job.hold and Path(job.hold).exists():
                        log.write(f"{pid} holds\n")
                        while Path(job.hold).exists():
                            time.sleep(0.01)
                    stream.save_offsets(database.connection)
                log.write(f"{pid} stored\n")
            except (OffsetStoreFencedError, sqlite3.OperationalError) as error:
                outcome = "fenced" if isinstance(error, OffsetStoreFencedError) else "failed"
                log.write(f"{pid} {outcome} {error}\n")
                stream.rewind()


if __name__ == "__main__":
    main()
