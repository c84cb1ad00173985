"""What the sender has to know to send: who leads which partition, and which producer id it may use.

Asking takes time, so a worker does it. All else runs on the sender's thread.
"""

import time
from collections.abc import Callable, Collection
from functools import partial
from typing import Final

from pyklient.errors import KafkaError, broker_error
from pyklient.net.backoff import Backoff
from pyklient.net.client import NetworkClient, Purpose
from pyklient.net.metadata import Metadata
from pyklient.producer.threads import BlockingWorker
from pyklient.protocol.messages import InitProducerIdRequest, InitProducerIdResponse

__all__ = ["ProducerId", "Upkeep"]

_ANY_BROKER: Final = -1
_NO_TRANSACTIONS_MS: Final = (1 << 31) - 1

ProducerId = tuple[int, int]
"""An id and its first epoch."""


class Upkeep:
    """Keeps the metadata of the topics in use fresh, and gets a producer id when one is wanted.

    Results go to *learned* and *identified*, with the error if there is none; *post* has them called on
    the sender's thread. *timeout* and *max_age* are in seconds.
    """

    def __init__(
        self,
        client: NetworkClient,
        backoff: Backoff,
        *,
        timeout: float,
        max_age: float,
        topics: Callable[[], Collection[str]],
        post: Callable[[Callable[[], None]], None],
        learned: Callable[[Metadata | None, KafkaError | None], None],
        identified: Callable[[ProducerId | None, KafkaError | None], None],
    ) -> None:
        self.alarm = float("inf")
        """When the sender lets it look again: the sender's."""
        self.worker = BlockingWorker("pyklient-producer-upkeep")
        self._client = client
        self._backoff = backoff
        self._timeout = timeout
        self._max_age = max_age
        self._topics = topics
        self._post = post
        self._learned = learned
        self._identified = identified
        self._new_topics: set[str] = set()
        self._refresh_at = time.monotonic() + max_age
        self._refreshing = False
        self._refresh_failures = 0
        self._refresh_pause_until = 0.0
        self._id_at = float("inf")
        self._asking_id = False
        self._id_failures = 0

    @property
    def next_look(self) -> float:
        """When ``look`` has something to do."""
        refresh = float("inf") if self._refreshing else self._refresh_at
        return min(refresh, float("inf") if self._asking_id else self._id_at)

    def want_metadata(self, now: float, topic: str | None = None) -> None:
        """The metadata is out of date, or lacks *topic*; ask as soon as the last time is long enough ago."""
        if topic is not None:
            self._new_topics.add(topic)
        self._refresh_at = min(self._refresh_at, max(now, self._refresh_pause_until))

    def want_producer_id(self, now: float) -> None:
        """A producer id is needed."""
        if self._id_at == float("inf") and not self._asking_id:
            self._id_at = now

    def look(self, now: float) -> None:
        """Ask what is due."""
        if now >= self._refresh_at and not self._refreshing:
            self._refreshing = True
            self._refresh_at = float("inf")
            new, self._new_topics = self._new_topics, set()
            self.worker.run(partial(self._refresh, {*self._topics(), *new}, bool(new)))
        if now >= self._id_at and not self._asking_id:
            self._asking_id = True
            self._id_at = float("inf")
            self.worker.run(self._ask_producer_id)

    def refreshed(self, metadata: Metadata | None, now: float) -> None:
        """An attempt at the metadata has ended: when the next is due, and when it is allowed."""
        self._refreshing = False
        self._refresh_failures = 0 if metadata is not None else self._refresh_failures + 1
        pause = self._backoff.pause(max(self._refresh_failures, 1))
        self._refresh_pause_until = now + pause
        wanted = max(self._refresh_at, self._refresh_pause_until)
        self._refresh_at = min(wanted, now + (self._max_age if metadata is not None else pause))

    def id_failed(self, now: float) -> None:
        """An attempt at a producer id has failed in a way that may pass: the next one comes after a pause."""
        self._asking_id = False
        self._id_failures += 1
        self._id_at = now + self._backoff.pause(self._id_failures)

    def id_settled(self) -> None:
        """There is a producer id, or there will be none."""
        self._asking_id = False
        self._id_failures = 0
        self._id_at = float("inf")

    # On the worker's thread:

    def _refresh(self, topics: set[str], allow_auto_create: bool) -> None:
        metadata: Metadata | None = None
        failure: KafkaError | None = None
        try:
            metadata = self._client.refresh_metadata(
                topics, self._timeout, allow_auto_create=allow_auto_create
            )
        except Exception as error:
            failure = _as_kafka_error(error)
        self._post(partial(self._learned, metadata, failure))

    def _ask_producer_id(self) -> None:
        producer_id: ProducerId | None = None
        failure: KafkaError | None = None
        try:
            connection = self._client.connection(_ANY_BROKER, Purpose.OTHER, self._timeout)
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_NO_TRANSACTIONS_MS)
            response: InitProducerIdResponse = connection.ask(request, self._timeout)
            if response.error_code:
                raise broker_error(response.error_code, "asking for a producer id")
            producer_id = (response.producer_id, response.producer_epoch)
        except Exception as error:
            failure = _as_kafka_error(error)
        self._post(partial(self._identified, producer_id, failure))


def _as_kafka_error(error: Exception) -> KafkaError:
    """Whatever it is, the sender must hear of it: it asks again only when the last question has ended."""
    return error if isinstance(error, KafkaError) else KafkaError(f"asking a broker has failed: {error!r}")
