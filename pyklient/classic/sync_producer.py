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
from pyklient.counted import counted
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
from pyklient.protocol.records.layout import Buffer
from pyklient.topic_partition import TopicPartition

__all__ = ["SyncProducer"]

_NO_ID: Final = -2
"""Stands for the id of the broker if only the address of the broker is known."""


class SyncProducer:
    """Sends produce requests to the broker at *host* and *port*. This broker must be the leader of the
    partitions in the requests.

    A request is never sent again: after an error of the network, the connection is closed and the error is
    raised. The next call opens the connection again. Several threads may use one SyncProducer; one request at
    a time is sent. *config* has the acknowledgements, the compression and the time-outs.
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
        if not isinstance(config, ClassicProducerConfig | None):
            raise TypeError(f"config must be a ClassicProducerConfig, not {config!r}")
        self._config = config if config is not None else ClassicProducerConfig(metadata_broker_list=where)
        self._connection = BrokerConnection(self._config, Endpoint(broker_id, host, port))
        self._led: dict[str, tuple[float, list[int]]] = {}
        """For each topic, the partitions that the broker leads, and the time at which the producer asked for
        them."""
        self._codecs: dict[str, Compression] = {}
        """The compression of the messages for each topic."""
        self._closed = False

    @property
    def endpoint(self) -> Endpoint:
        """The address of the broker, and its id."""
        return self._connection.endpoint

    def move(self, endpoint: Endpoint) -> None:
        """Send the next requests to *endpoint*, because the broker has a new address. A request that another
        thread is sending is not disturbed."""
        self._connection.endpoint = endpoint

    def send(
        self, topic: str, messages: Sequence[bytes | None], partition: int = ANY_PARTITION
    ) -> ProducerResponseStatus | None:
        """Send *messages* to one partition, and return the answer of the broker; None if
        ``request.required.acks`` is 0.

        Without *partition*, the messages go to a random one of the partitions that the broker leads.
        """
        values = list(argument_checks.several(messages, "messages"))
        statuses = self.multi_send([ProducerRequest(topic, partition, values)])
        return None if statuses is None else next(iter(statuses.values()))

    def multi_send(
        self, requests: Sequence[ProducerRequest]
    ) -> dict[TopicPartition, ProducerResponseStatus] | None:
        """Send *requests* in one produce request. Return the answer of the broker for each partition; None if
        ``request.required.acks`` is 0.

        The error of a partition is in its status, and is not raised. Raises MessageTooLargeError, before
        anything is sent, if a message is larger than ``max.message.size``.
        """
        checked = [_checked(each) for each in argument_checks.several(requests, "requests")]
        try:
            return self.send_checked(self._by_partition(checked))
        except KafkaError:
            self._led.clear()
            raise

    def send_checked(
        self, placed: dict[TopicPartition, ProducerRequest]
    ) -> dict[TopicPartition, ProducerResponseStatus] | None:
        """Send requests as ``multi_send`` does. *placed* has one request for each partition. The messages and
        keys of these requests are known to be bytes or None."""
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

    def fetch_metadata(self, topics: Sequence[str]) -> MetadataResponse:
        """Ask the broker for the metadata of *topics* and of all brokers. The broker may create topics that
        do not exist."""
        names = [
            MetadataRequest.MetadataRequestTopic(name=argument_checks.text(topic, "the name of a topic"))
            for topic in topics
        ]
        response: MetadataResponse = self._connection.ask(
            MetadataRequest(topics=names, allow_auto_topic_creation=True)
        )
        if response.error_code:
            raise broker_error(response.error_code, f"cannot get metadata from {self.endpoint}")
        return response

    def close(self, timeout: float = 2.0) -> None:
        """Close the connection. After that, other methods raise ClosedError. Further calls do nothing.

        If ``request.required.acks`` is 0, first wait until the broker has handled the messages that were sent
        last. After *timeout* seconds, log a warning.
        """
        self._closed = True
        self._connection.close(argument_checks.seconds(timeout, "timeout"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True) and not self._connection.forked:
            message = f"{self!r} was never closed; use it in a with block"
            self.close(0)  # the garbage collector may run in any thread, so do not wait
            warnings.warn(message, ResourceWarning, stacklevel=2, source=self)

    def __repr__(self) -> str:
        return f"<SyncProducer of {self.endpoint}{', closed' if self._closed else ''}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a SyncProducer cannot be pickled, because it holds a connection: create it in the process that "
            "uses it"
        )

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
        for (name, partition), request in placed.items():
            data = ProduceRequest.PartitionProduceData(
                index=partition, records=self._encoded(request, version)
            )
            if (topic := topics.get(name)) is None:
                topic = topics[name] = ProduceRequest.TopicProduceData(name=name)
            topic.partition_data.append(data)
        return list(topics.values())

    def _encoded(self, request: ProducerRequest, version: int) -> list[Buffer]:
        """Return the messages of *request* as an encoded batch, in several buffers. *version* is the version
        of the produce request. Raises MessageTooLargeError if a message is larger than
        ``max.message.size``."""
        codec = self._codecs.get(request.topic)
        if codec is None:
            codec = Compression.of(self._config.compression_of(request.topic))
            self._codecs[request.topic] = codec
        check_codec(codec, version, self.endpoint.node_id)
        now = time.time_ns() // 1_000_000
        try:
            batch = encode_values_batch(
                _as_list(request.messages),
                None if request.keys is None else _as_list(request.keys),
                timestamp_ms=now,
                magic=format_for(version),
                compression=codec,
            )
        except TypeError as error:
            raise TypeError(
                f"the messages and keys for topic {request.topic!r} must be bytes or None: {error}"
            ) from error
        limit = self._config.max_message_size
        if limit is not None:
            sizes = [sum(map(len, batch))] if codec else [len(value or b"") for value in request.messages]
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
                f"{self.endpoint} has answered for {counted(len(statuses), 'partition')}, but "
                f"{counted(len(placed), 'partition was', 'partitions were')} in the request; the messages "
                "may have been stored"
            )
        return statuses

    def _led_partitions(self, topic: str) -> list[int]:
        """Return the partitions of *topic* that the broker leads. Raises NoBrokersForPartitionError if there
        are none."""
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
                raise self._leads_nothing(topic, response)
            self._led[topic] = time.monotonic(), led
        return led

    def _leads_nothing(self, topic: str, response: MetadataResponse) -> NoBrokersForPartitionError:
        """Return the error that says that the broker leads no partition of *topic*. Its text tells the
        reason, which is found in *response*."""
        ids = [broker.node_id for broker in response.brokers]
        codes = [entry.error_code for entry in response.topics if entry.error_code]
        if codes:
            reason = str(broker_error(codes[0], f"cannot get the partitions of topic {topic!r}"))
        elif self.endpoint.node_id >= 0 and self.endpoint.node_id not in ids:
            known = ", ".join(map(str, ids)) or "none"
            reason = f"the cluster has no broker of this id (brokers: {known}); correct the id"
        else:
            reason = "send to another broker"
        return NoBrokersForPartitionError(
            f"{self.endpoint} leads no partition of topic {topic!r}, so it cannot store messages of the "
            f"topic: {reason}"
        )

    def _own_ids(self, response: MetadataResponse) -> set[int]:
        """Return a set with the id of this broker. If no id is configured, take the id of the broker in
        *response* that has the same address. If no broker has this address, but *response* has only one
        broker, take the id of that broker. Otherwise return an empty set."""
        if self.endpoint.node_id != _NO_ID:
            return {self.endpoint.node_id}
        named = {
            broker.node_id
            for broker in response.brokers
            if (broker.host, broker.port) == (self.endpoint.host, self.endpoint.port)
        }
        return named or ({response.brokers[0].node_id} if len(response.brokers) == 1 else set())


def _checked(request: object) -> ProducerRequest:
    if not isinstance(request, ProducerRequest):
        raise TypeError(f"multi_send takes a list of ProducerRequests, not of {type(request).__name__}")
    topic, partition, messages, keys = request
    argument_checks.text(topic, "topic")
    argument_checks.whole(partition, "partition", ANY_PARTITION)
    _check_sequence(messages, "messages")
    if keys is None:
        return request
    _check_sequence(keys, "keys")
    if len(keys) != len(messages):
        raise ConfigurationError(
            f"a ProducerRequest for topic {topic!r} has {counted(len(messages), 'message')}, but "
            f"{counted(len(keys), 'key')}; pass one key for each message, or keys=None"
        )
    return request


def _check_sequence(values: object, name: str) -> None:
    if type(values) is list:
        return
    if not isinstance(values, Sequence) or isinstance(values, str | bytes | bytearray | memoryview):
        raise TypeError(f"the {name} of a ProducerRequest must be a list, not {type(values).__name__}")


def _keys(request: ProducerRequest) -> Sequence[bytes | None]:
    return [None] * len(request.messages) if request.keys is None else request.keys


def _as_list(items: Sequence[bytes | None]) -> list[bytes | None]:
    return items if type(items) is list else list(items)
