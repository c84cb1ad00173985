"""BrokerConsumer: a SimpleConsumer that is bound to one broker, as in the documents of Kafka 0.7 and 0.8."""

from collections.abc import Collection, Mapping, Sequence
from ipaddress import IPv6Address
from typing import Final, TypeVar, Unpack, overload

from pyklient import argument_checks
from pyklient.argument_checks import INT64_MAX
from pyklient.config import AdminConfig
from pyklient.config.dotted_names import by_option_name
from pyklient.config.host_and_port import host_and_port
from pyklient.config.keyword_types import AdminOptions
from pyklient.consumer.simple import broker_fetches, broker_group_offsets, offsets_before
from pyklient.consumer.simple.broker_fetches import SimpleFetchResponse
from pyklient.consumer.simple.broker_group_offsets import Storage
from pyklient.consumer.simple.fetch_requests import MOST_FETCHES, PartitionFetch, SimpleFetchRequest
from pyklient.consumer.simple.fetched import Fetched
from pyklient.errors import ConfigurationError
from pyklient.net.broker_channel import BrokerChannel
from pyklient.net.closable_client import ClosableClient
from pyklient.net.dialogue import Dialogue, Refresh
from pyklient.net.lookups.list_offsets import EARLIEST, LATEST
from pyklient.net.metadata import Metadata, Node
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["BrokerConsumer"]

_Result = TypeVar("_Result")
_STORAGES: Final = ("kafka", "zookeeper")


class BrokerConsumer(ClosableClient[BrokerChannel]):
    """A client that asks one broker, over one connection, for messages and offsets. It stores no position.

    ``SimpleConsumer.connect`` makes it. It does not look for leaders: if the broker does not lead a
    partition, the error of this partition is NOT_LEADER_OR_FOLLOWER. If the connection fails, the request is
    sent once more on a new connection. A second failure is raised. A call takes at most
    ``default_api_timeout_ms``, and waits for each response for at most ``request_timeout_ms``. Several
    threads may use a BrokerConsumer; their requests are sent one after another.
    """

    EARLIEST: Final = EARLIEST
    """A value for *timestamp_ms* that stands for the first offset of the log."""
    LATEST: Final = LATEST
    """A value for *timestamp_ms* that stands for the offset that the next message will get."""

    def __init__(self, host: str, port: int = 9092, **options: Unpack[AdminOptions]) -> None:
        self._config = _config(host, port, options)
        super().__init__(BrokerChannel(self._config, host, port), host_and_port(host, port))

    @overload
    def fetch(self, request: PartitionFetch) -> Fetched: ...

    @overload
    def fetch(self, request: SimpleFetchRequest) -> SimpleFetchResponse: ...

    def fetch(
        self, request: PartitionFetch | SimpleFetchRequest, *more: object, **named: object
    ) -> Fetched | SimpleFetchResponse:
        """Send *request*, a fetch of one partition or of several, and return the messages. This method
        accepts no other argument.

        The error of a partition is in the result, and is raised when a loop reads the messages of this
        partition. For example, the error is a MessageTooLargeError if a broker before Kafka 0.10.1 has cut
        off the first message, because the message is larger than the requested number of bytes. Only failures
        of the whole request are raised here.
        """
        if more or named:
            raise TypeError(
                "fetch of a BrokerConsumer takes one PartitionFetch or SimpleFetchRequest, and no other "
                "arguments; for one partition, write fetch(PartitionFetch(topic, partition, offset))"
            )
        if isinstance(request, PartitionFetch):
            return self._fetch(SimpleFetchRequest((request,))).message_set(*request.where)
        if not isinstance(request, SimpleFetchRequest):
            raise TypeError(
                f"request must be a PartitionFetch or a SimpleFetchRequest, not {request!r}; for one "
                "partition, write fetch(PartitionFetch(topic, partition, offset))"
            )
        return self._fetch(request)

    def multifetch(self, fetches: Sequence[PartitionFetch]) -> list[Fetched]:
        """Return the results of *fetches*, in the same order. A partition may appear more than once.

        The error of a partition is in its own result, and is raised when a loop reads this result.
        """
        listed = list(argument_checks.several(fetches, "fetches"))
        for each in listed:
            if not isinstance(each, PartitionFetch):
                raise TypeError(f"each item of fetches must be a PartitionFetch, not {each!r}")
        if len(listed) > MOST_FETCHES:
            raise ConfigurationError(
                f"fetches has {len(listed):,} entries; at most {MOST_FETCHES:,} are allowed"
            )
        return self._play(broker_fetches.multifetch(listed))

    def get_offsets_before(
        self, topic: str, partition: int, timestamp_ms: int = LATEST, max_offsets: int = 1
    ) -> list[int]:
        """Return up to *max_offsets* offsets at which reading may begin, in descending order.

        The records before these offsets were written before *timestamp_ms*. ``EARLIEST`` returns the first
        offset of the log. ``LATEST`` returns the end of the log and offsets before it. Brokers up to 3.x
        return the starts of their log segments, and later brokers one or two offsets, as
        :meth:`SimpleConsumer.get_offsets_before` describes. Raises BrokerError, for instance if this broker
        does not lead the partition.
        """
        at = argument_checks.whole(timestamp_ms, "timestamp_ms", EARLIEST, INT64_MAX)
        most = argument_checks.whole(max_offsets, "max_offsets", low=1)
        return self._play(offsets_before.offsets_before_at_broker(_where(topic, partition), at, most))

    def earliest_or_latest_offset(self, topic: str, partition: int, timestamp_ms: int) -> int:
        """Return the first offset of a partition if *timestamp_ms* is EARLIEST, or the offset that the next
        message will get if *timestamp_ms* is LATEST. Raises BrokerError."""
        which = argument_checks.whole(timestamp_ms, "timestamp_ms", -INT64_MAX, INT64_MAX)
        return self._play(offsets_before.earliest_or_latest(_where(topic, partition), which))

    def commit_offsets(
        self,
        group_id: str,
        positions: Mapping[TopicPartition, OffsetAndMetadata | int],
        offsets_storage: Storage = "kafka",
    ) -> None:
        """Commit *positions* for a group that has no members.

        If *offsets_storage* is ``kafka``, this broker must be the group coordinator, which
        :meth:`find_coordinator` names. If *offsets_storage* is ``zookeeper``, any broker of Kafka 0.8.1 to
        3.9 writes the positions to ZooKeeper (version 0 of the request). Raises CommitError, whose
        ``partitions`` has the error of each partition that was not committed.
        """
        committed = argument_checks.positions(positions, "positions")
        storage = _storage(offsets_storage)
        self._play(broker_group_offsets.commit_offsets(_group(group_id), committed, storage))

    def fetch_offsets(
        self, group_id: str, partitions: Collection[TopicPartition], offsets_storage: Storage = "kafka"
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offset of each of *partitions*, or None for a partition without one.

        If *offsets_storage* is ``kafka``, this broker must be the group coordinator. If *offsets_storage* is
        ``zookeeper``, any broker of Kafka 0.8.1 to 3.9 reads the offsets from ZooKeeper (version 0 of the
        request). Raises BrokerError.
        """
        wanted = argument_checks.partitions(partitions, "partitions")
        storage = _storage(offsets_storage)
        return self._play(broker_group_offsets.fetch_offsets(_group(group_id), wanted, storage))

    def find_coordinator(self, group_id: str) -> Node:
        """Return the group coordinator of a group: ``id``, ``host`` and ``port``.

        Raises the retriable BrokerError COORDINATOR_NOT_AVAILABLE while a broker creates the topic for
        committed offsets.
        """
        return self._play(broker_group_offsets.find_coordinator(_group(group_id)))

    def topic_metadata(self, topics: Collection[str] | None = None) -> Metadata:
        """Return the brokers and *topics*, or all topics, as this broker knows them. No topic is created.

        The method ``leader`` of the result returns the leader of a partition, to which a program may then
        connect. The attribute ``topics`` has the partitions and the error code of each topic.
        """
        names = None if topics is None else argument_checks.names(topics, "topics")
        return self._play(_metadata(names))

    def _fetch(self, request: SimpleFetchRequest) -> SimpleFetchResponse:
        limit = self._config.request_timeout_ms
        if request.max_wait_ms >= limit:
            raise ConfigurationError(
                f"max_wait_ms={request.max_wait_ms} of the request is not less than request_timeout_ms="
                f"{limit} of the consumer, which would give up before the broker answers; lower "
                "max_wait_ms, or raise request_timeout_ms"
            )
        return self._play(broker_fetches.fetch(request), request.client_id)

    def _play(self, dialogue: Dialogue[_Result], client_id: str | None = None) -> _Result:
        return self._client.play(dialogue, client_id)


def _config(host: str, port: int, options: AdminOptions) -> AdminConfig:
    name = argument_checks.text(host, "host")
    number = argument_checks.whole(port, "port", low=1, high=65_535)
    if options.get("zookeeper") is not None:
        raise ConfigurationError(
            "zookeeper is set, but this consumer uses one broker, at its host and port; remove zookeeper, or "
            "use SimpleConsumer(zookeeper=…), which finds the brokers"
        )
    given = by_option_name(AdminConfig, [host_and_port(name, number)], {**options})
    config = AdminConfig.from_options(given)
    if config.bootstrap != ((name, number),) or (":" in name and not _is_ipv6(name)):
        raise ConfigurationError(
            f"host={host!r} is not the name or the address of one host; pass the port as another argument"
        )
    return config


def _is_ipv6(address: str) -> bool:
    try:
        IPv6Address(address)
    except ValueError:
        return False
    return True


def _where(topic: str, partition: int) -> TopicPartition:
    return TopicPartition(argument_checks.text(topic, "topic"), argument_checks.whole(partition, "partition"))


def _group(group_id: str) -> str:
    if not argument_checks.text(group_id, "group_id"):
        raise ConfigurationError("group_id must not be empty")
    return group_id


def _storage(value: Storage) -> Storage:
    if value not in _STORAGES:
        raise ConfigurationError(f"offsets_storage={value!r} is not one of 'kafka', 'zookeeper'")
    return value


def _metadata(topics: Collection[str] | None) -> Dialogue[Metadata]:
    metadata: Metadata = yield Refresh(topics)
    return metadata
