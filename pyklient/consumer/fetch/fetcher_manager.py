"""Everything between the brokers and the streams, as one thing to start and stop."""

import time
from collections.abc import Callable, Collection, Sequence

from pyklient.config import ConsumerConfig
from pyklient.consumer.fetch.fetch_budget import FetchBudget
from pyklient.consumer.fetch.fetch_position import Cursor
from pyklient.consumer.fetch.leader_lookup import LeaderLookup
from pyklient.net.client import NetworkClient

__all__ = ["FetcherManager"]


class FetcherManager:
    """Fetches cursors into their streams, within ``prefetch_max_bytes``."""

    def __init__(self, client: NetworkClient, config: ConsumerConfig) -> None:
        self._budget = FetchBudget(config.prefetch_max_bytes)
        self._lookup = LeaderLookup(client, config, self._budget)

    def start(self) -> None:
        """Start the thread that finds leaders; fetchers start as they are needed."""
        self._lookup.thread.start()

    def read(self, cursors: Sequence[Cursor]) -> None:
        """Read *cursors*, and nothing else from now on."""
        self._lookup.read(cursors)

    def add(self, cursor: Cursor) -> None:
        """Read *cursor* too."""
        self._lookup.seek(cursor, None)

    def restart(self, cursor: Cursor, position: int | None) -> None:
        """Read the partition of *cursor* again, from *position* on or from where it would begin."""
        cursor.stream.drop(cursor)
        if cursor.active:
            self._lookup.seek(cursor.successor(position), None)

    def watch(self, topics: Collection[str]) -> None:
        """Keep the client's metadata of *topics* fresh."""
        self._lookup.watch(topics)

    def abandon(self, then: Callable[[], None]) -> None:
        """Stop fetching, and call *then* on the thread that finds leaders. Takes no lock."""
        self._lookup.abandon(then)

    def close(self, timeout: float) -> None:
        """Stop fetching. Returns within *timeout* seconds."""
        self._lookup.close()
        if self._lookup.thread.ident is not None:
            self._lookup.join(time.monotonic() + timeout)
