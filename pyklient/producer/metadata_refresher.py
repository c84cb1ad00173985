"""Refreshes the metadata of a producer's topics."""

import time
from collections.abc import Collection
from functools import partial
from typing import NamedTuple

from pyklient.errors import KafkaError
from pyklient.net.backoff import Backoff
from pyklient.net.metadata import Metadata
from pyklient.net.network_client import NetworkClient
from pyklient.producer.threads.blocking_worker import BlockingWorker
from pyklient.producer.threads.sender_thread import SenderThread
from pyklient.producer.threads.timers import NEVER, Timed

__all__ = ["MetadataRefresher", "MetadataResult"]


class MetadataResult(NamedTuple):
    """The outcome of a metadata refresh: the new metadata, or the failure that prevented the refresh."""

    metadata: Metadata | None
    failure: KafkaError | None


class MetadataRefresher(Timed):
    """Decides when the producer asks a broker for metadata, and sends the request. Callers must hold the
    sender lock.

    The request runs on *worker*. *timeout* and *max_age* are in seconds.
    """

    def __init__(
        self,
        client: NetworkClient,
        backoff: Backoff,
        worker: BlockingWorker,
        thread: SenderThread,
        *,
        timeout: float,
        max_age: float,
    ) -> None:
        self.result: MetadataResult | None = None
        """The outcome of the last metadata refresh, until the sender fetches it."""
        self.is_due = False
        """True if the sender should call ``ask``, because the time for a refresh has come."""
        self._client = client
        self._backoff = backoff
        self._worker = worker
        self._thread = thread
        self._timeout = timeout
        self._max_age = max_age
        self._new_topics: set[str] = set()
        self._due = time.monotonic() + max_age
        self._asking = False
        self._failures = 0
        self._not_before = 0.0

    @property
    def due(self) -> float:
        """The time of the next metadata refresh. It is infinite while a refresh is running."""
        return NEVER if self._asking else self._due

    def on_timer(self) -> None:
        """Remember that the time for a metadata refresh has come."""
        self.is_due = True

    def look_up(self, topic: str) -> None:
        """Ask for the metadata of *topic* in the next refresh. Safe from any thread."""
        self._thread.post(partial(self.want, topic))

    def want(self, topic: str | None = None) -> None:
        """Refresh the metadata as soon as ``retry_backoff_ms`` allows.

        Call this if the metadata is out of date, or if it lacks *topic*.
        """
        if topic is not None:
            self._new_topics.add(topic)
        self._due = min(self._due, max(time.monotonic(), self._not_before))

    def ask(self, topics: Collection[str]) -> None:
        """Ask for the metadata of *topics*, and of the topics that ``want`` and ``look_up`` have named."""
        self.is_due = False
        self._asking = True
        self._due = NEVER
        new, self._new_topics = self._new_topics, set()
        self._worker.run(partial(self._refresh, {*topics, *new}, bool(new)))

    def _refreshed(self, result: MetadataResult) -> None:
        """Store the outcome of a refresh. Compute when the next refresh is due, and the earliest time at
        which it may be made."""
        succeeded = result.metadata is not None
        self._asking = False
        self._failures = 0 if succeeded else self._failures + 1
        now = time.monotonic()
        pause = self._backoff.pause(max(self._failures, 1))
        self._not_before = now + pause
        wanted = max(self._due, self._not_before)
        self._due = min(wanted, now + (self._max_age if succeeded else pause))
        self.result = result

    # On the worker's thread:

    def _refresh(self, topics: set[str], allow_auto_create: bool) -> None:
        metadata: Metadata | None = None
        failure: KafkaError | None = None
        try:
            metadata = self._client.refresh_metadata(
                topics, self._timeout, allow_auto_create=allow_auto_create
            )
        except Exception as error:
            # The sender must hear of any failure: it does not ask again before this request has ended.
            failure = (
                error
                if isinstance(error, KafkaError)
                else KafkaError(
                    f"the request for metadata failed unexpectedly; please report this: {error!r}"
                )
            )
        self._thread.post(partial(self._refreshed, MetadataResult(metadata, failure)))
