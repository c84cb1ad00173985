"""Offset stores: databases that keep the positions of a group beside the results of a program.

``SQLiteOffsetStore`` and ``PostgresOffsetStore`` are ready to use. For another database, write a class with
the two methods of ``OffsetStore``.
"""

from typing import TYPE_CHECKING, Final

from pyklient.lazy_imports import on_first_use

if TYPE_CHECKING:
    from pyklient.offset_stores.offset_store import OffsetStore, PositionChange, StoredPosition
    from pyklient.offset_stores.postgres import PostgresOffsetStore
    from pyklient.offset_stores.sqlite import SQLiteOffsetStore

__all__ = ["OffsetStore", "PositionChange", "PostgresOffsetStore", "SQLiteOffsetStore", "StoredPosition"]

_HOMES: Final = {
    "OffsetStore": "pyklient.offset_stores.offset_store",
    "PositionChange": "pyklient.offset_stores.offset_store",
    "StoredPosition": "pyklient.offset_stores.offset_store",
    "PostgresOffsetStore": "pyklient.offset_stores.postgres",
    "SQLiteOffsetStore": "pyklient.offset_stores.sqlite",
}

if not TYPE_CHECKING:  # Each store is imported on its first use, so SQLiteOffsetStore does not need psycopg.
    __getattr__ = on_first_use(globals(), _HOMES)
