"""The offset store in a SQLite database."""

import os
import sqlite3
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing, contextmanager

from pyklient import argument_checks
from pyklient.errors import ConfigurationError, KafkaError, KafkaTimeoutError
from pyklient.offset_stores.offset_store import PositionChange, StoredPosition
from pyklient.offset_stores.statements import DEFAULT_TABLE, Statements, offsets_to_store
from pyklient.topic_partition import TopicPartition

__all__ = ["SQLiteOffsetStore"]


class SQLiteOffsetStore:
    """An OffsetStore in the SQLite database in the file *path*, in the table *table*, which is created if it
    does not exist.

    The program stores its results in the same file, through a connection of its own::

        store = SQLiteOffsetStore("results.db")
        with ConsumerConnector("localhost:9092", group_id="totals", offset_store=store) as connector:
            stream = connector.stream("clicks")
            for batch in stream.batches(1000):
                with database:  # a sqlite3.Connection to results.db: one transaction
                    database.executemany("INSERT INTO clicks VALUES (?)", [[each.value] for each in batch])
                    stream.save_offsets(database)

    A call waits up to *timeout* seconds while another program writes to the file.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, table: str = DEFAULT_TABLE, timeout: float = 5.0
    ) -> None:
        text = os.fsdecode(path)
        if text in ("", ":memory:"):
            raise ConfigurationError(
                f"path={path!r} is a database that only one connection can see; pass the path of a file"
            )
        self._path = os.path.abspath(text)
        """The absolute path of the file. It stays valid if the program changes its working directory."""
        self._statements = Statements(table, "?")
        self._timeout = argument_checks.seconds(timeout, "timeout")
        with self._transaction() as database:
            try:
                database.execute(self._statements.create)
                database.execute(self._statements.check)
            except sqlite3.OperationalError as error:
                raise self._statements.not_usable(self._path, error) from error

    def __repr__(self) -> str:
        return f"SQLiteOffsetStore({self._path!r})"

    def acquire(
        self, group_id: str, starts: Mapping[TopicPartition, int | None]
    ) -> dict[TopicPartition, StoredPosition]:
        """Add 1 to the epoch of each partition in *starts*, and return the partition's position with the new
        epoch. If no offset is stored, store the one in *starts*.

        Raises KafkaTimeoutError if the file stays locked.
        """
        with self._transaction() as database:
            for partition, start in starts.items():
                database.execute(self._statements.acquire, (group_id, *partition, start))
            return {
                each: StoredPosition(*database.execute(self._statements.read, (group_id, *each)).fetchone())
                for each in starts
            }

    def save(
        self,
        transaction: sqlite3.Connection | sqlite3.Cursor,
        group_id: str,
        changes: Mapping[TopicPartition, PositionChange],
    ) -> Collection[TopicPartition]:
        """Make *changes* in the transaction of the connection or cursor *transaction*. Return the partitions
        that were not changed, because their stored epoch or offset is not the expected one.

        Raises ConfigurationError if the connection commits each statement by itself and no transaction has
        begun, or if the connection leads to another database, which does not have the table.
        """
        database = transaction.connection if isinstance(transaction, sqlite3.Cursor) else transaction
        if not isinstance(database, sqlite3.Connection):
            raise TypeError(f"save_offsets needs a sqlite3.Connection or sqlite3.Cursor, not {transaction!r}")
        # Since Python 3.12, the attribute autocommit can make each statement a transaction too.
        by_itself = database.isolation_level is None and getattr(database, "autocommit", -1) is not False
        if not database.in_transaction and (by_itself or getattr(database, "autocommit", -1) is True):
            raise ConfigurationError(
                "positions were not saved, because this connection has no transaction; execute BEGIN before "
                "you store the results"
            )
        change, rejected = self._statements.change, []
        try:
            for each, (epoch, replaced, offset) in changes.items():
                if database.execute(change, (offset, group_id, *each, epoch, replaced)).rowcount != 1:
                    rejected.append(each)
        except sqlite3.OperationalError as error:
            if "no such table" not in str(error):
                raise
            raise self._statements.not_there(self) from error
        return rejected

    def positions(self, group_id: str) -> dict[TopicPartition, int]:
        """Return the stored offset of each partition of the group *group_id*."""
        argument_checks.text(group_id, "group_id")
        with self._transaction() as database:
            rows = database.execute(self._statements.list, (group_id,)).fetchall()
        return {TopicPartition(topic, partition): offset for topic, partition, offset in rows}

    def reset(self, group_id: str, positions: Mapping[TopicPartition, int]) -> None:
        """Store *positions* in place of the positions that are stored now. Members that read these partitions
        cannot save positions until they call ``rewind``. After that, they continue at *positions*."""
        argument_checks.text(group_id, "group_id")
        wanted = offsets_to_store(positions)
        with self._transaction() as database:
            for partition, offset in wanted.items():
                database.execute(self._statements.replace, (group_id, *partition, offset))

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Yield a connection in a transaction, which is committed at the end of the ``with`` block."""
        try:
            with closing(
                sqlite3.connect(self._path, timeout=self._timeout, isolation_level=None)
            ) as database:
                database.execute("BEGIN IMMEDIATE")
                yield database
                database.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            if "locked" not in str(error):
                raise KafkaError(f"the offset store in {self._path} cannot be used: {error}") from error
            raise KafkaTimeoutError(
                f"the offset store in {self._path} was locked by another program for {self._timeout:.3g} s"
            ) from error
