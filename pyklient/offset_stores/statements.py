"""The SQL statements with which an offset store reads and changes its table."""

import re
from collections.abc import Mapping
from typing import Final

from pyklient import argument_checks
from pyklient.errors import ConfigurationError
from pyklient.topic_partition import TopicPartition

__all__ = ["DEFAULT_TABLE", "Statements", "offsets_to_store"]

DEFAULT_TABLE: Final = "pyklient_offsets"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")


class Statements:
    """The statements for the table *table*, which the statement ``create`` creates.

    *mark* is the placeholder of a parameter, such as ``?``. The docstring of a statement names its
    parameters.
    """

    def __init__(self, table: str, mark: str) -> None:
        if not isinstance(table, str) or not _NAME.fullmatch(table):
            raise ConfigurationError(
                f"table={table!r} is not the name of a table: use letters, digits and _, with at most one "
                "dot between a schema and the name"
            )
        self.table: Final = table
        this = f"group_id = {mark} AND topic = {mark} AND partition = {mark}"
        self.create: Final = (
            f"CREATE TABLE IF NOT EXISTS {table} (group_id TEXT NOT NULL, topic TEXT NOT NULL, "
            "partition INTEGER NOT NULL, next_offset BIGINT, epoch BIGINT NOT NULL, "
            "PRIMARY KEY (group_id, topic, partition))"
        )
        insert = f"INSERT INTO {table} AS stored (group_id, topic, partition, next_offset, epoch)"
        update = "ON CONFLICT (group_id, topic, partition) DO UPDATE SET epoch = stored.epoch + 1"
        self.check: Final = (
            f"EXPLAIN {insert} VALUES ('', '', 0, NULL, 0) {update}, next_offset = excluded.next_offset"
        )
        """A statement that changes nothing. It fails if the table does not have the columns and the primary
        key that the statement ``create`` gives it."""
        self.acquire: Final = (
            f"{insert} VALUES ({mark}, {mark}, {mark}, {mark}, 1) {update}, "
            "next_offset = coalesce(stored.next_offset, excluded.next_offset)"
        )
        """A statement that adds 1 to the epoch of a partition. Its parameters are the group, the topic, the
        partition, and the offset to store if none is stored."""
        self.read: Final = f"SELECT next_offset, epoch FROM {table} WHERE {this}"
        self.change: Final = (
            f"UPDATE {table} SET next_offset = {mark} WHERE {this} AND epoch = {mark} "
            f"AND next_offset = {mark}"
        )
        """A statement that changes an offset. Its parameters are the new offset, the group, the topic, the
        partition, the epoch and the offset to replace."""
        self.replace: Final = (
            f"{insert} VALUES ({mark}, {mark}, {mark}, {mark}, 1) {update}, "
            "next_offset = excluded.next_offset"
        )
        """A statement that stores an offset and adds 1 to the epoch. Its parameters are the group, the topic,
        the partition and the new offset."""
        self.list: Final = (
            f"SELECT topic, partition, next_offset FROM {table} WHERE group_id = {mark} "
            "AND next_offset IS NOT NULL ORDER BY topic, partition"
        )
        """A query that returns the stored offsets of a group. Its parameter is the group."""

    def not_usable(self, where: str, why: object) -> ConfigurationError:
        """Return the error for a table that cannot be used as an offset store. *where* names the database of
        the table, and *why* is the reason."""
        return ConfigurationError(
            f"the table {self.table} in {where} cannot be used as an offset store: {why}. An offset store "
            "needs a table of its own. Pass the name of a table that does not exist yet, or create the table "
            f"with this statement: {self.create}"
        )

    def not_there(self, store: object) -> ConfigurationError:
        """Return the error for a program's connection to a database that does not have the table of
        *store*."""
        return ConfigurationError(
            f"positions were not saved, because the database of this connection has no table {self.table}; "
            f"call save_offsets() with a connection to the database of {store!r}"
        )


def offsets_to_store(positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
    """Check *positions*, which a user wants to store, and return them sorted by partition. Raise an error
    that names the argument ``positions`` if they are not valid."""
    return {each: at.offset for each, at in sorted(argument_checks.positions(positions, "positions").items())}
