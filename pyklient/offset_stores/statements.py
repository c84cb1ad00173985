"""The SQL statements with which an offset store reads and changes its table."""

import re
from typing import Final

from pyklient.errors import ConfigurationError

__all__ = ["DEFAULT_TABLE", "Statements"]

DEFAULT_TABLE: Final = "pyklient_offsets"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?")


class Statements:
    """The statements for the table *table*, whose columns are those of ``create``.

    *mark* is the placeholder of a parameter, such as ``?``. The docstring of a statement names its
    parameters.
    """

    def __init__(self, table: str, mark: str) -> None:
        if not isinstance(table, str) or not _NAME.fullmatch(table):
            raise ConfigurationError(
                f"table={table!r} is not the name of a table: use letters, digits and _, with at most one "
                "dot between a schema and the name"
            )
        this = f"group_id = {mark} AND topic = {mark} AND partition = {mark}"
        self.create: Final = (
            f"CREATE TABLE IF NOT EXISTS {table} (group_id TEXT NOT NULL, topic TEXT NOT NULL, "
            "partition INTEGER NOT NULL, next_offset BIGINT, epoch BIGINT NOT NULL, "
            "PRIMARY KEY (group_id, topic, partition))"
        )
        self.acquire: Final = (
            f"INSERT INTO {table} AS stored (group_id, topic, partition, next_offset, epoch) "
            f"VALUES ({mark}, {mark}, {mark}, {mark}, 1) ON CONFLICT (group_id, topic, partition) DO UPDATE "
            "SET epoch = stored.epoch + 1, next_offset = coalesce(stored.next_offset, excluded.next_offset)"
        )
        """Adds 1 to the epoch of a partition. Parameters: the group, the topic, the partition, and the
        offset to store if none is stored."""
        self.read: Final = f"SELECT next_offset, epoch FROM {table} WHERE {this}"
        self.change: Final = (
            f"UPDATE {table} SET next_offset = {mark} WHERE {this} AND epoch = {mark} "
            f"AND next_offset = {mark}"
        )
        """Changes an offset. Parameters: the new offset, the group, the topic, the partition, the epoch and
        the offset to replace."""
        self.replace: Final = (
            f"INSERT INTO {table} AS stored (group_id, topic, partition, next_offset, epoch) "
            f"VALUES ({mark}, {mark}, {mark}, {mark}, 1) ON CONFLICT (group_id, topic, partition) DO UPDATE "
            "SET epoch = stored.epoch + 1, next_offset = excluded.next_offset"
        )
        """Stores an offset and adds 1 to the epoch. Parameters: the group, the topic, the partition and the
        new offset."""
        self.list: Final = (
            f"SELECT topic, partition, next_offset FROM {table} WHERE group_id = {mark} "
            "AND next_offset IS NOT NULL ORDER BY topic, partition"
        )
        """Returns the stored offsets of a group. Parameter: the group."""
