"""SyncProducer: sends messages to one broker, and waits for its answer."""

import random
import time
import warnings
from collections.abc import Sequence
from typing import Final, NoReturn, Self

from pyklient import argument_checks
from pyklient.classic.broker_connection import BrokerConnection
from pyklient.classic.producer_config import ClassicProducerConfig
from pyklient.classic.producer_request import ProducerRequest, ProducerResponseStatus
from pyklient.classic.queue_item import ANY_PARTITION
from pyklient.config.host_and_port import host_and_port
from pyklient.errors import (
    ConfigurationError,
    KafkaError,
    MessageTooLargeError,
    NoBrokersForPartitionError,
    ProtocolError,
    broker_error,
)
from pyklient.kernel import encode_values_batch
from pyklient.net.connection.transport import Endpoint
from pyklient.net.produce_versions import MAX_PRODUCE_VERSION, check_codec, format_for
from pyklient.protocol.messages import MetadataRequest, MetadataResponse, ProduceRequest, ProduceResponse
from pyklient.protocol.records import Compression
from pyklient.topic_partition import TopicPartition

__all__ = ["SyncProducer"]

_NO_ID: Final = -2
"""The id that stands for an unknown broker id, if only the address of the broker is known."""


class SyncProducer:
    """Sends produce requests to the broker at *host* and *port*, which must be the leader of their
    partitions.

    Nothing is sent again: an error of the network ends the connection, and is raised. The next call opens the
    connection again. Several threads may use one SyncProducer; one request at a time is sent. *config* has
    the acknowledgements, the compression and the time-outs.
    """

    def __init__(
        self,
        host: str,
        port: int,
        config: ClassicProducerConfig | None = None,
        *,
        broker_id: int = _NO_ID,
    ) -> None:
        where = host_and_port(
            argument_checks.text(host, "host"), argument_checks.whole(port, "port", 1, 65535)
        )
        self._config = config if config is not None else ClassicProducerConfig(metadata_broker_list=where)
        self._connection = BrokerConnection(self._config, Endpoint(broker_id, host, port))
        self._led: dict[str, tuple[float, list[int]]] = {}
        """The time at which the partitions of a topic were asked for, and those that the broker leads, by
        topic."""
        self._closed = False

    @property
    def endpoint(self) -> Endpoint:
        """The address of the broker, and its id."""
        return self._connection.endpoint

    def send(
        self, topic: str, messages: Sequence[bytes | None], partition: int = ANY_PARTITION
    ) -> ProducerResponseStatus | None:
        """Send *messages* to one partition, and return the answer of the broker; None if
        ``request.required.acks`` is 0.

        Without *partition*, a random partition is chosen that the broker leads.
        """
        statuses = self.multi_send([ProducerRequest(topic, partition, messages)])
        return None if statuses is None else next(iter(statuses.values()))

    def multi_send(
        self, requests: Sequence[ProducerRequest]
    ) -> dict[TopicPartition, ProducerResponseStatus] | None:
        """Send *requests* in one produce request. Return the answer of the broker for each partition; None if
        ``request.required.acks`` is 0.

        The error of a partition is in its status, and is not raised. Raises MessageTooLargeError, before
        anything is sent, if a message is larger than ``max.message.size``.
        """
        try:
            return self._send(requests)
        except KafkaError:
            self._led.clear()
            raise

    def fetch_metadata(self, topics: Sequence[str]) -> MetadataResponse:
        """Ask the broker for the metadata of *topics* and of all brokers. The broker may create topics that
        do not exist."""
        names = [MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics]
        response: MetadataResponse = self._connection.ask(
            MetadataRequest(topics=names, allow_auto_topic_creation=True)
        )
        if response.error_code:
            raise broker_error(response.error_code, f"cannot get metadata from {self.endpoint}")
        return response

    def close(self) -> None:
        """Close the connection. After that, other methods raise ClosedError. Further calls do nothing."""
        self._closed = True
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            message = f"{self!r} was never closed; use it in a with block"
            self.close()
            warnings.warn(message, ResourceWarning, stacklevel=2, source=self)

    def __repr__(self) -> str:
        return f"<SyncProducer of {self.endpoint}{', closed' if self._closed else ''}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a SyncProducer cannot be pickled, because it holds a connection: create it in the process that "
            "uses it"
        )

    def _send(
        self, requests: Sequence[ProducerRequest]
    ) -> dict[TopicPartition, ProducerResponseStatus] | None:
        placed = self._by_partition(requests)
        connection = self._connection.opened()
        version = connection.version_of(ProduceRequest, MAX_PRODUCE_VERSION)
        message = ProduceRequest(
            acks=self._config.request_required_acks,
            timeout_ms=self._config.request_timeout_ms,
            topic_data=self._topic_data(placed, version),
        )
        if not self._config.request_required_acks:
            self._connection.tell(message, version, connection)
            return None
        response: ProduceResponse = self._connection.ask(message, max_version=version, over=connection)
        return self._statuses(placed, response)

    def _by_partition(self, requests: Sequence[ProducerRequest]) -> dict[TopicPartition, ProducerRequest]:
        """Return *requests* by partition. Several requests for the same partition become one."""
        placed: dict[TopicPartition, ProducerRequest] = {}
        for request in requests:
            topic, partition, messages, keys = request
            if not messages:
                raise ConfigurationError(
                    f"there are no messages to send to topic {topic!r}; pass at least one"
                )
            if partition == ANY_PARTITION:
                partition = random.choice(self._led_partitions(topic))
            where = TopicPartition(topic, partition)
            if (before := placed.get(where)) is not None:
                keys = [*_keys(before), *_keys(request)] if before.keys or keys else None
                messages = [*before.messages, *messages]
            placed[where] = ProducerRequest(topic, partition, messages, keys)
        return placed

    def _topic_data(
        self, placed: dict[TopicPartition, ProducerRequest], version: int
    ) -> list[ProduceRequest.TopicProduceData]:
        topics: dict[str, ProduceRequest.TopicProduceData] = {}
        for where, request in placed.items():
            topic = topics.setdefault(where.topic, ProduceRequest.TopicProduceData(name=where.topic))
            data = ProduceRequest.PartitionProduceData(
                index=where.partition, records=[self._encoded(request, version)]
            )
            topic.partition_data.append(data)
        return list(topics.values())

    def _encoded(self, request: ProducerRequest, version: int) -> bytes:
        codec = Compression.of(self._config.compression_of(request.topic))
        check_codec(codec, version, self.endpoint.node_id)
        now = time.time_ns() // 1_000_000
        batch = encode_values_batch(
            list(request.messages),
            None if request.keys is None else list(request.keys),
            timestamp_ms=now,
            magic=format_for(version),
            compression=codec,
        )
        limit = self._config.max_message_size
        if limit is not None:
            sizes = [len(batch)] if codec else [len(value or b"") for value in request.messages]
            if (largest := max(sizes)) > limit:
                raise MessageTooLargeError(
                    f"a message for {request.topic} has {largest:,} bytes, but max.message.size allows "
                    f"{limit:,}; nothing was sent. Split the message, or raise max.message.size"
                )
        return batch

    def _statuses(
        self, placed: dict[TopicPartition, ProducerRequest], response: ProduceResponse
    ) -> dict[TopicPartition, ProducerResponseStatus]:
        statuses = {}
        for topic in response.responses:
            for each in topic.partition_responses:
                where = TopicPartition(topic.name, each.index)
                error = (
                    broker_error(each.error_code, f"cannot produce to {where}") if each.error_code else None
                )
                statuses[where] = ProducerResponseStatus(error, each.base_offset)
                if error is not None and error.refresh_metadata:
                    self._led.pop(topic.name, None)
        if statuses.keys() != placed.keys():
            raise ProtocolError(
                f"{self.endpoint} has answered for {len(statuses)} partitions, but {len(placed)} partitions "
                "were in the request; the messages may have been stored"
            )
        return statuses

    def _led_partitions(self, topic: str) -> list[int]:
        """Return the partitions of *topic* that the broker leads."""
        asked_at, led = self._led.get(topic, (0.0, []))
        if not led or self._config.is_old(asked_at):
            response = self.fetch_metadata([topic])
            ids = self._own_ids(response)
            led = [
                each.partition_index
                for entry in response.topics
                for each in entry.partitions
                if each.leader_id in ids
            ]
            if not led:
                raise NoBrokersForPartitionError(
                    f"{self.endpoint} leads no partition of topic {topic!r}, so it cannot store messages of "
                    "the topic; send to another broker"
                )
            self._led[topic] = time.monotonic(), led
        return led

    def _own_ids(self, response: MetadataResponse) -> set[int]:
        """Return the id of this broker, if it is known: from the configuration, or by the address that the
        broker itself has advertised."""
        if self.endpoint.node_id != _NO_ID:
            return {self.endpoint.node_id}
        named = {
            broker.node_id
            for broker in response.brokers
            if (broker.host, broker.port) == (self.endpoint.host, self.endpoint.port)
        }
        return named or ({response.brokers[0].node_id} if len(response.brokers) == 1 else set())


def _keys(request: ProducerRequest) -> Sequence[bytes | None]:
    return [None] * len(request.messages) if request.keys is None else request.keys
