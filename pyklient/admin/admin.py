"""Admin: one call per thing a person or a deployment wants done to topics and groups."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import NoReturn, Self, TypeVar, Unpack

from pyklient import argument_checks
from pyklient.admin import groups, topics
from pyklient.admin.descriptions import (
    ClusterDescription,
    GroupDescription,
    GroupListing,
    PartitionLag,
    TopicDescription,
)
from pyklient.config import DEFAULT_SERVERS, AdminConfig
from pyklient.config.dotted_names import by_option_name
from pyklient.config.keyword_types import AdminOptions
from pyklient.error_codes import ErrorCode
from pyklient.errors import BrokerError, ConfigurationError
from pyklient.net.client import NetworkClient
from pyklient.net.dialogue import Dialogue, Refresh
from pyklient.net.lookups.list_offsets import list_offsets
from pyklient.net.metadata import Metadata
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["Admin"]

_Result = TypeVar("_Result")

_LATEST, _EARLIEST = -1, -2


class Admin:
    """Creates, deletes and describes topics; lists, describes and deletes groups.

    Safe to use from several threads. Each call takes ``timeout`` in seconds (default:
    ``default_api_timeout_ms``) and raises KafkaTimeoutError when it runs out, BrokerError when the
    cluster refuses, BrokerConnectionError or AuthenticationError when it cannot be reached. A wrong
    argument is a TypeError or a ConfigurationError before anybody is asked.
    """

    def __init__(
        self, bootstrap_servers: str | Sequence[str] = DEFAULT_SERVERS, **options: Unpack[AdminOptions]
    ) -> None:
        self._config = AdminConfig.from_options(by_option_name(AdminConfig, bootstrap_servers, options))
        self._client = NetworkClient(self._config)
        self._closed = False

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = 1,
        config: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> None:
        """Create a topic; returns when each of its partitions has a leader.

        -1 for *partitions* or *replication_factor* takes the cluster's default (brokers since 2.4).
        A topic of that name is BrokerError TOPIC_ALREADY_EXISTS.
        """
        count = _count(partitions, "partitions", argument_checks.INT32_MAX)
        replicas = _count(replication_factor, "replication_factor", argument_checks.INT16_MAX)
        settings = {} if config is None else argument_checks.settings(config, "config")
        name, waiting = argument_checks.text(name, "name"), self._seconds(timeout)
        self._play(topics.create_topic(name, count, replicas, settings, int(waiting * 1000)), waiting)

    def create_partitions(self, topic: str, total: int, timeout: float | None = None) -> None:
        """Grow *topic* to *total* partitions. Keys move to other partitions from then on."""
        topic, total = argument_checks.text(topic, "topic"), argument_checks.whole(total, "total", low=1)
        waiting = self._seconds(timeout)
        self._play(topics.create_partitions(topic, total, int(waiting * 1000)), waiting)

    def delete_topic(self, name: str, timeout: float | None = None) -> None:
        """Delete a topic with its records; returns when the brokers no longer show it."""
        name, waiting = argument_checks.text(name, "name"), self._seconds(timeout)
        self._play(topics.delete_topic(name, int(waiting * 1000)), waiting)

    def topics(self, internal: bool = False, timeout: float | None = None) -> list[str]:
        """Names of all topics, sorted; *internal* ones such as ``__consumer_offsets`` on request."""
        return self._play(topics.list_topics(argument_checks.flag(internal, "internal")), timeout)

    def describe_topic(self, name: str, timeout: float | None = None) -> TopicDescription:
        """Partitions with leaders and replicas, and the settings made on the topic itself."""
        return self._play(topics.describe_topic(argument_checks.text(name, "name")), timeout)

    def groups(self, timeout: float | None = None) -> list[GroupListing]:
        """All groups of all brokers, sorted by name."""
        return self._play(groups.list_groups(), timeout)

    def describe_group(self, group_id: str, timeout: float | None = None) -> GroupDescription:
        """State, protocol and members. No such group: BrokerError GROUP_ID_NOT_FOUND."""
        return self._play(groups.describe_group(_group(group_id)), timeout)

    def group_offsets(
        self, group_id: str, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offsets a group has committed to Kafka; none of a group that is not there, as brokers say."""
        return self._play(groups.group_offsets(_group(group_id)), timeout)

    def group_lag(self, group_id: str, timeout: float | None = None) -> dict[TopicPartition, PartitionLag]:
        """How far the group is, in each partition of the topics that it has committed offsets for or that its
        members subscribe to, as far as these exist.

        Partitions without a committed offset count from the start of their log. No such group: BrokerError
        GROUP_ID_NOT_FOUND.
        """
        return self._play(_group_lag(_group(group_id)), timeout)

    def delete_group(self, group_id: str, timeout: float | None = None) -> None:
        """Delete a group and its offsets. With members in it: BrokerError NON_EMPTY_GROUP."""
        self._play(groups.delete_group(_group(group_id)), timeout)

    def start_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset still kept, by partition."""
        return self._play(_offsets(argument_checks.partitions(partitions, "partitions"), _EARLIEST), timeout)

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset the next record will get (the high watermark), by partition."""
        return self._play(_offsets(argument_checks.partitions(partitions, "partitions"), _LATEST), timeout)

    def cluster(self, timeout: float | None = None) -> ClusterDescription:
        """The brokers, and which of them is the controller."""
        return self._play(_cluster(), timeout)

    def close(self) -> None:
        """Close the connections. Further calls raise ClosedError; closing twice is fine."""
        self._closed = True
        self._client.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            self._client.close()
            warnings.warn(f"{self!r} was not closed", ResourceWarning, stacklevel=2, source=self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Admin of {self._config.bootstrap_servers}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "an Admin holds connections and cannot be pickled; pass its options and make one where it is used"
        )

    def _seconds(self, timeout: float | None) -> float:
        if timeout is None:
            return self._config.default_api_timeout_ms / 1000
        return argument_checks.seconds(timeout, "timeout")

    def _play(self, dialogue: Dialogue[_Result], timeout: float | None) -> _Result:
        return self._client.play(dialogue, self._seconds(timeout))


def _group(group_id: str) -> str:
    return argument_checks.text(group_id, "group_id")


def _count(value: int, name: str, most: int) -> int:
    number = argument_checks.whole(value, name, -most, most)
    if number < 1 and number != -1:
        raise ConfigurationError(
            f"{name}={number} is out of range: 1 and up, or -1 for the cluster's default"
        )
    return number


def _group_lag(group_id: str) -> Dialogue[dict[TopicPartition, PartitionLag]]:
    committed = yield from groups.group_offsets(group_id)
    subscribed = yield from _subscribed(group_id, has_offsets=bool(committed))
    topics = sorted(subscribed | {tp.topic for tp in committed})
    metadata: Metadata = yield Refresh(topics)
    found = [
        TopicPartition(topic, number)
        for topic in topics
        if topic in metadata.topics
        for number in metadata.topics[topic].partitions
    ]
    starts = yield from _offsets([tp for tp in found if tp not in committed], _EARLIEST)
    ends = yield from _offsets(found, _LATEST)
    return {
        tp: PartitionLag(committed[tp].offset if tp in committed else None, ends[tp], starts.get(tp))
        for tp in found
    }


def _subscribed(group_id: str, *, has_offsets: bool) -> Dialogue[frozenset[str]]:
    """The topics that the members of a group subscribe to."""
    try:
        group = yield from groups.describe_group(group_id)
    except BrokerError as error:
        # Brokers do not describe a group of the newer protocol (KIP-848) in this way, but know its offsets.
        if not has_offsets or error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return frozenset()
    return frozenset(topic for member in group.members for topic in member.subscription)


def _offsets(partitions: Iterable[TopicPartition], at: int) -> Dialogue[dict[TopicPartition, int]]:
    wanted = dict.fromkeys(partitions, at)
    found = yield from list_offsets(wanted)
    return {tp: found[tp].offset for tp in wanted}


def _cluster() -> Dialogue[ClusterDescription]:
    metadata = yield Refresh(())
    brokers = tuple(node for _, node in sorted(metadata.nodes.items()))
    return ClusterDescription(metadata.cluster_id, metadata.controller_id, brokers)
