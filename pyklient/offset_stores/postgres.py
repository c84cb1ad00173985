"""The offset store in a PostgreSQL database."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyklient import argument_checks
from pyklient.errors import ConfigurationError, KafkaError, KafkaTimeoutError
from pyklient.missing_packages import without_psycopg
from pyklient.offset_stores.offset_store import PositionChange, StoredPosition
from pyklient.offset_stores.statements import DEFAULT_TABLE, Statements, offsets_to_store
from pyklient.topic_partition import TopicPartition

try:
    import psycopg
except ImportError as error:
    raise without_psycopg() from error

__all__ = ["PostgresOffsetStore"]


class PostgresOffsetStore:
    """An OffsetStore in the PostgreSQL database that *conninfo* names, in the table *table*, which is created
    if it does not exist.

    *conninfo* is text as for ``psycopg.connect``. The program stores its results in the same database,
    through a psycopg connection of its own::

        store = PostgresOffsetStore("dbname=results")
        with ConsumerConnector("localhost:9092", group_id="totals", offset_store=store) as connector:
            stream = connector.stream("clicks")
            for batch in stream.batches(1000):
                with database.transaction():  # of a psycopg.Connection to the same database
                    database.cursor().executemany(
                        "INSERT INTO clicks VALUES (%s)", [[each.value] for each in batch]
                    )
                    stream.save_offsets(database)

    A call waits up to *timeout* seconds for the server, and for a transaction that has changed the same
    positions and is not committed yet.
    """

    def __init__(self, conninfo: str, *, table: str = DEFAULT_TABLE, timeout: float = 5.0) -> None:
        self._conninfo = argument_checks.text(conninfo, "conninfo")
        self._statements = Statements(table, "%s")
        self._timeout = argument_checks.seconds(timeout, "timeout")
        with self._transaction() as database:
            try:
                found = database.execute("SELECT to_regclass(%s)", (table,)).fetchone()
                if found == (None,):
                    # The lock is needed because CREATE TABLE may fail if two programs create the table at the
                    # same time.
                    database.execute("SELECT pg_advisory_xact_lock(hashtext(%s))", (table,))
                    database.execute(self._statements.create)
                database.execute(self._statements.check)
            except psycopg.ProgrammingError as error:
                raise self._statements.not_usable("PostgreSQL", _sentence(error)) from error

    def __repr__(self) -> str:
        return "PostgresOffsetStore(…)"  # without the password that conninfo may have

    def acquire(
        self, group_id: str, starts: Mapping[TopicPartition, int | None]
    ) -> dict[TopicPartition, StoredPosition]:
        """Add 1 to the epoch of each partition in *starts*, and return the partition's position with the new
        epoch. If no offset is stored, store the one in *starts*.

        Raises KafkaTimeoutError if the server cannot be reached, or if another transaction has changed one of
        the positions and does not end in time.
        """
        found = {}
        with self._transaction() as database:
            for each, start in sorted(starts.items()):  # sorted, so that two members cannot deadlock
                database.execute(self._statements.acquire, (group_id, *each, start))
                row = database.execute(self._statements.read, (group_id, *each)).fetchone()
                assert row is not None
                found[each] = StoredPosition(*row)
        return found

    def save(
        self,
        transaction: "psycopg.Connection[Any] | psycopg.Cursor[Any]",
        group_id: str,
        changes: Mapping[TopicPartition, PositionChange],
    ) -> Collection[TopicPartition]:
        """Make *changes* in the transaction of the connection or cursor *transaction*. Return the partitions
        that were not changed, because their stored epoch or offset is not the expected one.

        Raises ConfigurationError if the connection commits each statement by itself and no transaction has
        begun, or if the connection leads to another database, which does not have the table.
        """
        database = transaction.connection if isinstance(transaction, psycopg.Cursor) else transaction
        if not isinstance(database, psycopg.Connection):
            raise TypeError(f"save_offsets needs a psycopg.Connection or psycopg.Cursor, not {transaction!r}")
        if database.autocommit and database.info.transaction_status == psycopg.pq.TransactionStatus.IDLE:
            raise ConfigurationError(
                "positions were not saved, because this connection has no transaction; store the results and "
                "call save_offsets inside `with connection.transaction():`"
            )
        # In the pipeline mode, a statement has no rowcount before its result is fetched.
        change = f"{self._statements.change} RETURNING epoch"
        try:
            return [
                each
                for each, (epoch, replaced, offset) in sorted(changes.items())
                if database.execute(change, (offset, group_id, *each, epoch, replaced)).fetchone() is None
            ]
        except psycopg.errors.UndefinedTable as error:
            raise self._statements.not_there(self) from error

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
            for each, offset in wanted.items():
                database.execute(self._statements.replace, (group_id, *each, offset))

    @contextmanager
    def _transaction(self) -> "Iterator[psycopg.Connection[tuple[Any, ...]]]":
        """Yield a new connection in a transaction, which is committed at the end of the ``with`` block."""
        milliseconds = max(1, int(self._timeout * 1000))
        try:
            with psycopg.connect(self._conninfo, connect_timeout=max(2, round(self._timeout))) as database:
                database.execute(
                    "SELECT set_config('lock_timeout', %s, true), set_config('statement_timeout', %s, true)",
                    (str(milliseconds), str(milliseconds)),
                )
                yield database
        except psycopg.OperationalError as failure:
            raise KafkaTimeoutError(
                f"the offset store in PostgreSQL could not be used within {self._timeout:.3g} s: "
                f"{str(failure).strip()}"
            ) from failure
        except psycopg.Error as failure:
            raise KafkaError(
                f"the offset store in PostgreSQL cannot be used: {_sentence(failure)}"
            ) from failure


def _sentence(failure: psycopg.Error) -> str:
    """Return the first line of the message of *failure*, without the lines that show the SQL statement."""
    return str(failure).strip().partition("\n")[0]
