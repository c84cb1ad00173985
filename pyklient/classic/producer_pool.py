"""The SyncProducers of a classic producer, one for each broker. They also ask the brokers for metadata."""

import random
import time
from collections.abc import Iterable, Sequence
from typing import Final

from pyklient.classic.producer_config import ClassicProducerConfig
from pyklient.classic.sync_producer import SyncProducer
from pyklient.errors import BrokerConnectionError, ClosedError, ForkError, KafkaError
from pyklient.net.connection.transport import Endpoint
from pyklient.protocol.messages import MetadataResponse

__all__ = ["ProducerPool"]

_CLOSE_TIMEOUT: Final = 2.0


class ProducerPool:
    """The SyncProducers of a classic producer, each of which sends to one broker, by the ids of the brokers.
    Safe to use from several threads."""

    def __init__(self, config: ClassicProducerConfig) -> None:
        self._config = config
        self._producers: dict[int, SyncProducer] = {}
        self._asking: set[SyncProducer] = set()
        """The SyncProducers that are asking for metadata at the moment."""
        self._closed = False

    @property
    def broker_ids(self) -> list[int]:
        """The ids of the brokers that are known."""
        return list(self._producers)

    def producer(self, broker_id: int) -> SyncProducer:
        """Return the SyncProducer of a broker. Raise BrokerConnectionError if the broker is not known."""
        if (producer := self._producers.get(broker_id)) is None:
            known = ", ".join(map(str, sorted(self._producers))) or "none"
            raise BrokerConnectionError(f"broker {broker_id} is not known at the moment (brokers: {known})")
        return producer

    def update(self, brokers: Iterable[Endpoint]) -> None:
        """Add *brokers* to the known brokers. If the address of a broker has changed, the next request to it
        opens a new connection."""
        for broker in brokers:
            known = self._producers.get(broker.node_id)
            if known is None:
                made = self._made(broker)
                known = self._producers.setdefault(broker.node_id, made)
                if known is not made:  # another thread was faster
                    made.close(0)
            if known.endpoint != broker:
                known.move(broker)
        if self._closed:
            self.interrupt()

    def fetch_metadata(self, servers: Sequence[Endpoint], topics: Sequence[str]) -> MetadataResponse:
        """Ask *servers* for the metadata of *topics*. The servers are asked one after the other, in random
        order, until one of them answers.

        Each server is asked over a separate connection, which is closed afterwards. Raises
        BrokerConnectionError with all failures if no server answers, and ClosedError as soon as another
        thread calls ``close``.
        """
        failures = []
        for server in random.sample(servers, len(servers)):
            try:
                response = self._ask(server, topics)
            except (ClosedError, ForkError):
                raise
            except KafkaError as error:
                failures.append(str(error))
                continue
            self.update(Endpoint(each.node_id, each.host, each.port) for each in response.brokers)
            return response
        names = ", ".join(map(repr, sorted(topics)))
        raise BrokerConnectionError(f"no broker has given the metadata of {names}: {'; '.join(failures)}")

    def close(self) -> None:
        """Close all connections. If messages were sent with ``acks=0``, wait up to two seconds first, so that
        the brokers can handle them. Further calls do nothing."""
        deadline = time.monotonic() + _CLOSE_TIMEOUT
        for producer in list(self._producers.values()):
            producer.close(max(0.0, deadline - time.monotonic()))
        self.interrupt()

    def interrupt(self) -> None:
        """Close all connections at once. A request that another thread is sending fails with a
        ClosedError."""
        self._closed = True
        for producer in [*self._producers.values(), *self._asking]:
            producer.close(0)

    def _made(self, broker: Endpoint) -> SyncProducer:
        return SyncProducer(broker.host, broker.port, self._config, broker_id=broker.node_id)

    def _ask(self, server: Endpoint, topics: Sequence[str]) -> MetadataResponse:
        with self._made(server) as producer:
            self._asking.add(producer)  # so that close() ends the request
            try:
                if self._closed:
                    raise ClosedError(
                        "this producer has been closed, so it cannot fetch metadata; create a new one"
                    )
                return producer.fetch_metadata(topics)
            finally:
                self._asking.discard(producer)
