"""The SyncProducers of a classic producer, one for each broker. They also ask the brokers for metadata."""

import random
from collections.abc import Iterable, Sequence

from pyklient.classic.producer_config import ClassicProducerConfig
from pyklient.classic.sync_producer import SyncProducer
from pyklient.errors import BrokerConnectionError, ClosedError, ForkError, KafkaError
from pyklient.net.connection.transport import Endpoint
from pyklient.protocol.messages import MetadataResponse

__all__ = ["ProducerPool"]


class ProducerPool:
    """The SyncProducers of a classic producer, by the ids of their brokers."""

    def __init__(self, config: ClassicProducerConfig) -> None:
        self._config = config
        self._producers: dict[int, SyncProducer] = {}
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
        """Add *brokers* to the known brokers. If the address of a broker has changed, it gets a new
        connection."""
        for broker in brokers:
            before = self._producers.get(broker.node_id)
            if before is not None and before.endpoint == broker:
                continue
            self._producers[broker.node_id] = SyncProducer(
                broker.host, broker.port, self._config, broker_id=broker.node_id
            )
            if before is not None:
                before.close()
        if self._closed:
            self.close()

    def fetch_metadata(self, servers: Sequence[Endpoint], topics: Sequence[str]) -> MetadataResponse:
        """Ask *servers* for the metadata of *topics*, one after the other in random order, until one of them
        answers.

        Each server is asked over a separate connection, which is closed afterwards. Raises
        BrokerConnectionError with all failures if no server answers.
        """
        failures = []
        for server in random.sample(servers, len(servers)):
            try:
                with SyncProducer(
                    server.host, server.port, self._config, broker_id=server.node_id
                ) as producer:
                    response = producer.fetch_metadata(topics)
            except (ClosedError, ForkError):
                raise
            except KafkaError as error:
                failures.append(str(error))
                continue
            self.update(Endpoint(each.node_id, each.host, each.port) for each in response.brokers)
            return response
        raise BrokerConnectionError(
            f"no broker has given the metadata of {', '.join(sorted(topics))}: {'; '.join(failures)}"
        )

    def close(self) -> None:
        """Close all connections. Further calls do nothing."""
        self._closed = True
        for producer in list(self._producers.values()):
            producer.close()
