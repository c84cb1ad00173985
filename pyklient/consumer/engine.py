"""Everything between the brokers and the streams, as one thing to start and stop."""

import time
from collections.abc import Callable, Collection, Sequence

from pyklient.config import ConsumerConfig
from pyklient.consumer.claim import Claim
from pyklient.consumer.finder import Finder
from pyklient.consumer.room import Room
from pyklient.net.client import NetworkClient

__all__ = ["Engine"]


class Engine:
    """Fetches claims into their streams, within ``prefetch_max_bytes``."""

    def __init__(self, client: NetworkClient, config: ConsumerConfig) -> None:
        self._room = Room(config.prefetch_max_bytes)
        self._finder = Finder(client, config, self._room)

    def start(self) -> None:
        """Start the thread that finds leaders; fetchers start as they are needed."""
        self._finder.thread.start()

    def read(self, claims: Sequence[Claim]) -> None:
        """Read *claims*, and nothing else from now on."""
        self._finder.read(claims)

    def add(self, claim: Claim) -> None:
        """Read *claim* too."""
        self._finder.seek(claim, None)

    def restart(self, claim: Claim, position: int | None) -> None:
        """Read the partition of *claim* again, from *position* on or from where it would begin."""
        claim.stream.drop(claim)
        if claim.active:
            self._finder.seek(claim.successor(position), None)

    def watch(self, topics: Collection[str]) -> None:
        """Keep the client's metadata of *topics* fresh."""
        self._finder.watch(topics)

    def abandon(self, then: Callable[[], None]) -> None:
        """Stop fetching, and call *then* on the thread that finds leaders. Takes no lock."""
        self._finder.abandon(then)

    def close(self, timeout: float) -> None:
        """Stop fetching. Returns within *timeout* seconds."""
        self._finder.close()
        if self._finder.thread.ident is not None:
            self._finder.join(time.monotonic() + timeout)
