"""Every ready-made offset store: positions are acquired, changed under their epoch only, and survive what
rolls a transaction back."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import psycopg
import pytest

from pyklient.errors import ConfigurationError, KafkaError, KafkaTimeoutError
from pyklient.offset_stores import PositionChange, PostgresOffsetStore, SQLiteOffsetStore, StoredPosition
from pyklient.topic_partition import TopicPartition
from tests.servers.postgres import Postgres

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


class Begin(Protocol):
    """Begins a transaction on a new connection, which an exception rolls back."""

    def __call__(self) -> AbstractContextManager[Any]: ...


class Database(NamedTuple):
    """A database with an offset store."""

    store: SQLiteOffsetStore | PostgresOffsetStore
    begin: Begin
    impatient: SQLiteOffsetStore | PostgresOffsetStore
    """A store in the same table that waits for a short time only."""
    in_table: Callable[[str], SQLiteOffsetStore | PostgresOffsetStore]
    """Makes a store in the table with the given name."""


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    if request.param == "sqlite":
        path = tmp_path / "results.db"

        @contextmanager
        def begin_sqlite() -> Iterator[sqlite3.Connection]:
            with closing(sqlite3.connect(path)) as connection, connection:
                yield connection

        return Database(
            SQLiteOffsetStore(path),
            begin_sqlite,
            SQLiteOffsetStore(path, timeout=2),
            lambda table: SQLiteOffsetStore(path, table=table),
        )
    server: Postgres = request.getfixturevalue("postgres")
    conninfo = server.new_database()

    def begin_postgres() -> AbstractContextManager[psycopg.Connection]:
        return psycopg.connect(conninfo)

    return Database(
        PostgresOffsetStore(conninfo),
        begin_postgres,
        PostgresOffsetStore(conninfo, timeout=3),
        lambda table: PostgresOffsetStore(conninfo, table=table),
    )


def save(database: Database, *change: int, partition: TopicPartition = ZERO) -> list[TopicPartition]:
    with database.begin() as transaction:
        return list(database.store.save(transaction, "g", {partition: PositionChange(*change)}))


def test_a_partition_begins_at_the_offset_that_was_stored_first(database: Database) -> None:
    store = database.store
    assert store.acquire("g", {ZERO: None, ONE: None}) == {
        ZERO: StoredPosition(None, 1),
        ONE: StoredPosition(None, 1),
    }
    assert store.acquire("g", {ZERO: 7}) == {ZERO: StoredPosition(7, 2)}
    assert store.acquire("g", {ZERO: 9}) == {ZERO: StoredPosition(7, 3)}
    assert store.positions("g") == {ZERO: 7}
    assert store.acquire("other", {ZERO: 1}) == {ZERO: StoredPosition(1, 1)}


def test_a_change_needs_the_newest_epoch_and_the_stored_offset(database: Database) -> None:
    store = database.store
    store.acquire("g", {ZERO: 0, ONE: 0})
    assert save(database, 1, 0, 10) == []
    assert save(database, 1, 0, 20) == [ZERO], "the stored offset is 10"
    store.acquire("g", {ZERO: None})
    assert save(database, 1, 10, 20) == [ZERO], "the epoch is 2"
    assert save(database, 2, 10, 20) == []
    assert save(database, 1, 0, 5, partition=TopicPartition("t", 9)) == [TopicPartition("t", 9)]
    assert store.positions("g") == {ZERO: 20, ONE: 0}


def test_a_transaction_that_is_rolled_back_changes_nothing(database: Database) -> None:
    database.store.acquire("g", {ZERO: 0})
    with database.begin() as transaction:
        assert not database.store.save(transaction, "g", {ZERO: PositionChange(1, 0, 10)})
        transaction.rollback()
    assert database.store.positions("g") == {ZERO: 0}


def test_reset_fences_whoever_has_acquired_the_partition(database: Database) -> None:
    database.store.acquire("g", {ZERO: 5})
    database.store.reset("g", {ZERO: 5, ONE: 2})
    assert save(database, 1, 5, 10) == [ZERO]
    assert database.store.positions("g") == {ZERO: 5, ONE: 2}
    assert database.store.acquire("g", {ONE: 9}) == {ONE: StoredPosition(2, 2)}


def test_a_partition_cannot_be_acquired_while_a_transaction_changes_it(database: Database) -> None:
    database.store.acquire("g", {ZERO: 0})
    with database.begin() as transaction:
        assert not database.store.save(transaction, "g", {ZERO: PositionChange(1, 0, 10)})
        with pytest.raises(KafkaTimeoutError, match="offset store in") as failure:
            database.impatient.acquire("g", {ZERO: None})
        assert failure.value.retriable
    assert database.store.acquire("g", {ZERO: None}) == {ZERO: StoredPosition(10, 2)}


def test_of_two_changes_at_the_same_time_one_is_made(database: Database) -> None:
    database.store.acquire("g", {ZERO: 0})
    began, rejected = threading.Event(), []

    def other() -> None:
        began.set()
        rejected.extend(save(database, 1, 0, 10))

    thread = threading.Thread(target=other)
    with database.begin() as transaction:
        assert not database.store.save(transaction, "g", {ZERO: PositionChange(1, 0, 20)})
        thread.start()
        began.wait(60)
    thread.join(30)
    assert rejected == [ZERO]
    assert database.store.positions("g") == {ZERO: 20}


def test_members_that_acquire_at_the_same_time_get_different_epochs(database: Database) -> None:
    found: list[int] = []

    def acquire(order: list[TopicPartition]) -> None:
        for _ in range(10):
            found.append(database.store.acquire("g", dict.fromkeys(order, 0))[ZERO].epoch)

    threads = [threading.Thread(target=acquire, args=[order]) for order in ([ZERO, ONE], [ONE, ZERO])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(found) == list(range(1, 21))


def test_a_connection_that_commits_each_statement_by_itself_needs_a_transaction(database: Database) -> None:
    database.store.acquire("g", {ZERO: 0})
    changes = {ZERO: PositionChange(1, 0, 10)}
    with database.begin() as transaction:
        if isinstance(transaction, sqlite3.Connection):
            transaction.isolation_level = None
        else:
            transaction.autocommit = True
        with pytest.raises(ConfigurationError, match="this connection has no transaction"):
            database.store.save(transaction, "g", changes)
        transaction.execute("BEGIN")
        assert not database.store.save(transaction.cursor(), "g", changes)
        transaction.execute("COMMIT")
        with pytest.raises(TypeError, match="save_offsets needs a "):
            database.store.save(None, "g", changes)  # type: ignore[arg-type]
    assert database.store.positions("g") == {ZERO: 10}


def test_a_transaction_in_pipeline_mode_saves_positions_too(postgres: Postgres) -> None:
    conninfo = postgres.new_database()
    store = PostgresOffsetStore(conninfo)
    store.acquire("g", {ZERO: 0, ONE: 0})
    changes = {ZERO: PositionChange(1, 0, 10), ONE: PositionChange(1, 5, 10)}
    with psycopg.connect(conninfo) as connection, connection.pipeline():
        assert store.save(connection, "g", changes) == [ONE]
    assert store.positions("g") == {ZERO: 10, ONE: 0}


def test_a_change_to_the_stored_offset_checks_it(database: Database) -> None:
    database.store.acquire("g", {ZERO: 5})
    assert save(database, 1, 5, 5) == []
    assert save(database, 1, 4, 4) == [ZERO]


@pytest.mark.parametrize(
    "create",
    [
        "CREATE TABLE other (group_id TEXT, topic TEXT)",
        "CREATE TABLE other (group_id TEXT, topic TEXT, partition INTEGER, next_offset BIGINT, epoch BIGINT)",
        "CREATE VIEW other AS SELECT 1 AS epoch",
    ],
    ids=["other columns", "no key", "a view"],
)
def test_a_table_that_is_not_that_of_a_store_is_an_error(
    database: Database,
    create: Literal["CREATE TABLE other", "CREATE VIEW other"],
) -> None:
    with database.begin() as transaction:
        transaction.execute(create)
    for _ in range(2):
        with pytest.raises(
            ConfigurationError, match=r"the table other in .* cannot be used as an offset store"
        ):
            database.in_table("other")
    assert database.in_table("another").acquire("g", {ZERO: 3}) == {ZERO: StoredPosition(3, 1)}
    with pytest.raises(ConfigurationError, match=r"the table order in .* cannot be used"):
        database.in_table("order")


def test_a_connection_to_another_database_is_an_error_that_says_so(
    database: Database, tmp_path: Path, postgres: Postgres
) -> None:
    changes = {ZERO: PositionChange(1, 0, 10)}
    if isinstance(database.store, SQLiteOffsetStore):
        with (
            closing(sqlite3.connect(tmp_path / "other.db")) as elsewhere,
            pytest.raises(ConfigurationError, match=r"has no table pyklient_offsets; .*results\.db"),
        ):
            database.store.save(elsewhere, "g", changes)
    else:
        with (
            psycopg.connect(postgres.new_database()) as connection,
            pytest.raises(ConfigurationError, match="has no table pyklient_offsets"),
        ):
            database.store.save(connection, "g", changes)


@pytest.mark.parametrize("offset", [-1, "7", None, 1.5])
def test_reset_stores_nothing_but_offsets(database: Database, offset: Any) -> None:
    with pytest.raises((ConfigurationError, TypeError), match=r"positions\[t-1\]"):
        database.store.reset("g", {ZERO: 5, ONE: offset})
    wrong: Any = {"t": 5}
    with pytest.raises(TypeError, match="positions takes a TopicPartition"):
        database.store.reset("g", wrong)
    assert database.store.positions("g") == {}


def test_a_file_that_is_no_database_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a database, but a text" * 100)
    for path in (tmp_path / "text", tmp_path / "missing" / "results.db"):
        with pytest.raises(KafkaError, match=f"the offset store in {path} cannot be used") as failure:
            SQLiteOffsetStore(path)
        assert not failure.value.retriable


def test_a_store_stays_in_its_file_when_the_program_changes_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = SQLiteOffsetStore("results.db")
    store.reset("g", {ZERO: 5})
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert store.positions("g") == {ZERO: 5}


def test_a_name_that_is_not_a_table_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is not the name of a table"):
        SQLiteOffsetStore(tmp_path / "results.db", table="offsets; DROP TABLE results")
    with pytest.raises(ConfigurationError, match="pass the path of a file"):
        SQLiteOffsetStore(":memory:")


def test_a_server_that_cannot_be_reached_is_a_retriable_error() -> None:
    with pytest.raises(KafkaTimeoutError, match="the offset store in PostgreSQL") as failure:
        PostgresOffsetStore("host=127.0.0.1 port=1 dbname=none user=nobody password=secret", timeout=2)
    assert failure.value.retriable
    assert "secret" not in str(failure.value)
