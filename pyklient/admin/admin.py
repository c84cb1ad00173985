"""Admin, the client that creates, describes and deletes topics, and describes and deletes groups."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias, Unpack

from pyklient import argument_checks
from pyklient.admin import groups, topics, zookeeper_groups
from pyklient.admin.descriptions import (
    ClusterDescription,
    GroupDescription,
    GroupListing,
    OffsetCopy,
    OffsetReset,
    PartitionLag,
    Storage,
    StoredOffsets,
    TopicDescription,
    ZooKeeperGroupDescription,
)
from pyklient.admin.group_offsets import GroupOffsets
from pyklient.admin.offset_reset import NewOffsets, ResetTo
from pyklient.admin.topics import list_partitions
from pyklient.admin.transaction_admin import TransactionAdmin
from pyklient.argument_checks import IsolationLevel
from pyklient.config import DEFAULT_SERVERS
from pyklient.config.keyword_types import AdminOptions
from pyklient.error_codes import ErrorCode
from pyklient.errors import BrokerError, ConfigurationError, NoNodeError, UnsupportedVersionError
from pyklient.net.dialogue import Dialogue, Refresh
from pyklient.net.lookups.list_offsets import EARLIEST, LATEST, list_offsets
from pyklient.net.metadata import Metadata
from pyklient.registry import paths
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from pyklient.registry.zookeeper import ZooKeeper

__all__ = ["Admin"]

Coordination: TypeAlias = Literal["kafka", "zookeeper"]


class Admin(TransactionAdmin):
    """A client that creates, describes and deletes topics, lists, describes and deletes groups, and lists,
    describes and aborts transactions.

    With the option ``zookeeper``, it also lists, describes and deletes groups that are coordinated through
    ZooKeeper.

    Several threads may use an Admin at the same time. Each call has a ``timeout`` in seconds (default:
    ``default_api_timeout_ms``). A call raises KafkaTimeoutError when the time runs out, BrokerError when the
    cluster answers with an error, and BrokerConnectionError or AuthenticationError when the cluster cannot be
    reached. A wrong argument raises TypeError or ConfigurationError before anything is sent.
    """

    def __init__(
        self, bootstrap_servers: str | Sequence[str] = DEFAULT_SERVERS, **options: Unpack[AdminOptions]
    ) -> None:
        super().__init__(bootstrap_servers, options)

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication_factor: int = 1,
        config: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> None:
        """Create a topic. Return when each of its partitions has a leader.

        -1 for *partitions* or *replication_factor* means the default of the cluster (brokers since 2.4).
        Raises BrokerError TOPIC_ALREADY_EXISTS if there is a topic of that name.
        """
        count = _count(partitions, "partitions", argument_checks.INT32_MAX)
        replicas = _count(replication_factor, "replication_factor", argument_checks.INT16_MAX)
        settings = {} if config is None else argument_checks.settings(config, "config")
        name, waiting = argument_checks.text(name, "name"), self._seconds(timeout)
        self._play(topics.create_topic(name, count, replicas, settings, int(waiting * 1000)), waiting)

    def create_partitions(self, topic: str, total: int, timeout: float | None = None) -> None:
        """Add partitions to *topic* until it has *total* partitions.

        New records with a key may then go to another partition than earlier records with the same key.
        """
        topic, total = argument_checks.text(topic, "topic"), argument_checks.whole(total, "total", low=1)
        waiting = self._seconds(timeout)
        self._play(topics.create_partitions(topic, total, int(waiting * 1000)), waiting)

    def delete_topic(self, name: str, timeout: float | None = None) -> None:
        """Delete a topic and its records. Return when the metadata no longer contains the topic."""
        name, waiting = argument_checks.text(name, "name"), self._seconds(timeout)
        self._play(topics.delete_topic(name, int(waiting * 1000)), waiting)

    def topics(self, internal: bool = False, timeout: float | None = None) -> list[str]:
        """Return the names of all topics, sorted. With *internal*, include internal topics such as
        ``__consumer_offsets``."""
        return self._play(topics.list_topics(argument_checks.flag(internal, "internal")), timeout)

    def partitions(
        self, topics: Sequence[str] = (), internal: bool = False, timeout: float | None = None
    ) -> list[TopicPartition]:
        """Return the partitions of *topics*. If *topics* is empty, return the partitions of all topics, and
        leave out internal topics unless *internal* is true. Raises BrokerError for a topic that does not
        exist."""
        names = argument_checks.names(topics, "topics")
        return self._play(list_partitions(names, argument_checks.flag(internal, "internal")), timeout)

    def describe_topic(self, name: str, timeout: float | None = None) -> TopicDescription:
        """Return the partitions of a topic with their replicas, and the settings that were given to the
        topic."""
        return self._play(topics.describe_topic(argument_checks.text(name, "name")), timeout)

    def groups(
        self, timeout: float | None = None, coordination: Coordination | None = None
    ) -> list[GroupListing]:
        """Return the groups that brokers coordinate and the groups in ZooKeeper, sorted by name.

        Groups in ZooKeeper are returned only if the client has the option ``zookeeper``. With *coordination*,
        only groups of that kind are returned. A group that brokers coordinate and a group in ZooKeeper may
        have the same name.
        """
        if coordination is not None:
            _check_coordination(coordination)
        registry = self._registry() if coordination == "zookeeper" else self._client.registry
        waiting, began = self._seconds(timeout), time.monotonic()
        found: list[GroupListing] = []
        if registry is not None and coordination != "kafka":
            found += registry.play(zookeeper_groups.read_groups(), waiting)
        if coordination != "zookeeper":
            try:
                found += self._play(groups.list_groups(), _left(waiting, began))
            except UnsupportedVersionError:
                if registry is None:
                    raise  # with ZooKeeper, brokers before 0.9 are no error: they coordinate no groups
        return sorted(found, key=lambda group: (group.group_id, group.coordination))

    def describe_group(self, group_id: str, timeout: float | None = None) -> GroupDescription:
        """Return the state, protocol and members of a group.

        Raises BrokerError GROUP_ID_NOT_FOUND if there is no such group.
        """
        return self._play(groups.describe_group(_group(group_id)), timeout)

    def describe_zookeeper_group(
        self, group_id: str, timeout: float | None = None
    ) -> ZooKeeperGroupDescription:
        """Return the members, owners, committed offsets and lag of a group that is coordinated through
        ZooKeeper.

        The client needs the option ``zookeeper``. If a node of the group cannot be parsed, an ``error`` in
        the description gives the reason. Raises NoNodeError if ZooKeeper has no such group.
        """
        group_id, waiting = _group(group_id), self._seconds(timeout)
        registry = self._registry()
        began = time.monotonic()
        nodes = registry.play(zookeeper_groups.read_group(group_id), waiting)
        if nodes is None:
            raise self._no_group("describe", group_id)
        return self._play(zookeeper_groups.describe_group(nodes), _left(waiting, began))

    def group_offsets(
        self, group_id: str, timeout: float | None = None, coordination: Coordination = "kafka"
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offsets that a group has committed.

        With *coordination* ``kafka``, these are the offsets that brokers keep, and the result is empty if
        there are none. With ``zookeeper``, these are the offsets that ``describe_zookeeper_group`` returns.
        """
        if _check_coordination(coordination) == "zookeeper":
            found = self.describe_zookeeper_group(group_id, timeout).partitions
            return {
                each: OffsetAndMetadata(progress.committed)
                for each, progress in found.items()
                if progress.committed is not None
            }
        return self._play(groups.group_offsets(_group(group_id)), timeout)

    def group_lag(
        self,
        group_id: str,
        timeout: float | None = None,
        coordination: Coordination = "kafka",
        isolation_level: IsolationLevel = "read_uncommitted",
    ) -> dict[TopicPartition, PartitionLag]:
        """Return the lag of a group in each partition of its topics.

        The topics of a group are those for which it has committed offsets, and those to which its members
        subscribe. In a partition without a committed offset, the lag counts from the start of the log. Raises
        BrokerError GROUP_ID_NOT_FOUND if there is no such group.

        With *coordination* ``zookeeper``, the group is one that is coordinated through ZooKeeper, as in
        ``describe_zookeeper_group``. A partition whose end is not known is left out. With the
        *isolation_level* ``read_committed``, the lag of a group that brokers coordinate counts up to the last
        stable offset.
        """
        level = argument_checks.isolation_level(isolation_level)
        if _check_coordination(coordination) == "zookeeper":
            found = self.describe_zookeeper_group(group_id, timeout).partitions
            return {
                each: PartitionLag(progress.committed, progress.end, progress.start)
                for each, progress in found.items()
                if progress.end is not None
            }
        return self._play(_group_lag(_group(group_id), level), timeout)

    def delete_group(
        self, group_id: str, timeout: float | None = None, coordination: Coordination = "kafka"
    ) -> None:
        """Delete a group and its offsets. Raises BrokerError NON_EMPTY_GROUP if the group has members.

        With *coordination* ``zookeeper``, delete the nodes of the group in ZooKeeper. Offsets that the group
        has committed to Kafka stay. Raises NoNodeError if ZooKeeper has no such group.
        """
        if _check_coordination(coordination) == "kafka":
            self._play(groups.delete_group(_group(group_id)), timeout)
        elif not self._registry().play(
            zookeeper_groups.delete_group(_group(group_id)), self._seconds(timeout)
        ):
            raise self._no_group("delete", group_id)

    def stored_offsets(
        self, group_id: str, topics: Iterable[str | TopicPartition] = (), timeout: float | None = None
    ) -> dict[TopicPartition, StoredOffsets]:
        """Return the offsets that a group has committed to Kafka and, if the client has the option
        ``zookeeper``, those that it has committed to ZooKeeper.

        *topics* may contain topics and partitions. If it is empty, the result has the partitions for which
        the group has committed offsets.
        """
        return self._group_offsets(group_id, timeout).stored(_wanted(topics))

    def reset_offsets(
        self,
        group_id: str,
        to: ResetTo = None,
        *,
        shift_by: int | None = None,
        topics: Iterable[str | TopicPartition] = (),
        storage: Storage | None = None,
        execute: bool = False,
        timeout: float | None = None,
    ) -> OffsetReset:
        """Compute new committed offsets for a group. Commit them only if *execute* is true.

        *to* is an offset, an offset for each partition, a datetime with a time zone, or one of the words
        ``"earliest"``, ``"latest"`` and ``"current"``. A datetime means the first record of that time or
        later. ``"current"`` means the committed offset, or the end of the log if there is none. If
        *shift_by* is given instead of *to*, this number is added to the committed offsets.

        *topics* may contain topics and partitions. If it is empty, all partitions for which the group has
        committed offsets are reset. *storage* is ``"kafka"`` or ``"zookeeper"``. If *storage* is None, the
        offsets are reset in each storage in which the group has offsets.

        A new offset that the log does not have is replaced by the nearest one that it has. Raises BrokerError
        NON_EMPTY_GROUP if *execute* is true and the group has members. The members of a group in ZooKeeper
        are seen only with the option ``zookeeper``.
        """
        wanted = NewOffsets.of(to, shift_by)
        if storage is not None:
            _check_coordination(storage, "storage")
        return self._group_offsets(group_id, timeout).reset(
            wanted, _wanted(topics), storage, execute=argument_checks.flag(execute, "execute")
        )

    def copy_offsets(
        self,
        group_id: str,
        to: Storage,
        *,
        topics: Iterable[str | TopicPartition] = (),
        lower: bool = False,
        execute: bool = False,
        timeout: float | None = None,
    ) -> dict[TopicPartition, OffsetCopy]:
        """Copy the committed offsets of a group from ZooKeeper to Kafka (*to* is ``"kafka"``), or from Kafka
        to ZooKeeper. Write them only if *execute* is true.

        *topics* may contain topics and partitions. If it is empty, all offsets are copied. The members of the
        group may run meanwhile. Copy from the storage to which they commit. Larger offsets in the storage
        *to* stay as they are, unless *lower* is true. The client needs the option ``zookeeper``.

        Raises BrokerError NON_EMPTY_GROUP if *to* is ``"kafka"`` and a broker coordinates the members of the
        group, because the broker then accepts commits only from them.
        """
        _check_coordination(to, "to")
        return self._group_offsets(group_id, timeout).copy(
            to,
            _wanted(topics),
            execute=argument_checks.flag(execute, "execute"),
            lower=argument_checks.flag(lower, "lower"),
        )

    def start_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """Return the offset of the first record that each partition still has."""
        return self._play(_offsets(argument_checks.partitions(partitions, "partitions"), EARLIEST), timeout)

    def end_offsets(
        self,
        partitions: Iterable[TopicPartition],
        timeout: float | None = None,
        isolation_level: IsolationLevel = "read_uncommitted",
    ) -> dict[TopicPartition, int]:
        """Return the offset in each partition up to which consumers with *isolation_level* can read: the high
        watermark, or with ``read_committed`` the last stable offset."""
        wanted, level = argument_checks.partitions(partitions, "partitions"), isolation_level
        return self._play(_offsets(wanted, LATEST, argument_checks.isolation_level(level)), timeout)

    def cluster(self, timeout: float | None = None) -> ClusterDescription:
        """Return the brokers of the cluster and the id of the controller."""
        return self._play(_cluster(), timeout)

    def _group_offsets(self, group_id: str, timeout: float | None) -> GroupOffsets:
        return GroupOffsets(self._client, _group(group_id), self._seconds(timeout))

    def _no_group(self, verb: str, group_id: str) -> NoNodeError:
        return NoNodeError(
            f"cannot {verb} group {group_id}: ZooKeeper at {self._config.zookeeper} has no node "
            f"{paths.group(group_id)}; check the name of the group and the chroot of the cluster"
        )

    def _registry(self) -> "ZooKeeper":
        if self._client.registry is None:
            raise ConfigurationError(
                "groups that are coordinated through ZooKeeper need the address of ZooKeeper: pass "
                "zookeeper='host:port/chroot' to Admin"
            )
        return self._client.registry


def _check_coordination(given: Coordination, name: str = "coordination") -> Coordination:
    if given not in ("kafka", "zookeeper"):
        raise ConfigurationError(f"{name}={given!r} is neither 'kafka' nor 'zookeeper'; choose one of them")
    return given


def _wanted(topics: Iterable[str | TopicPartition]) -> list[str | TopicPartition]:
    found: list[str | TopicPartition] = []
    for each in argument_checks.several(topics, "topics"):
        if isinstance(each, str):
            found.append(argument_checks.topic_name(each))
        else:
            found.append(argument_checks.partition(each, "topics"))
    return found


def _group(group_id: str) -> str:
    return argument_checks.text(group_id, "group_id")


def _left(timeout: float, began: float) -> float:
    """Return how many seconds remain of *timeout* for a call that began at the time *began*
    (``time.monotonic``)."""
    return max(timeout - (time.monotonic() - began), 0.001)


def _count(value: int, name: str, most: int) -> int:
    number = argument_checks.whole(value, name, -most, most)
    if number < 1 and number != -1:
        raise ConfigurationError(
            f"{name}={number} is out of range; pass 1 or more, or -1 for the default of the cluster"
        )
    return number


def _group_lag(group_id: str, isolation_level: int) -> Dialogue[dict[TopicPartition, PartitionLag]]:
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
    starts = yield from _offsets([tp for tp in found if tp not in committed], EARLIEST)
    ends = yield from _offsets(found, LATEST, isolation_level)
    return {
        tp: PartitionLag(committed[tp].offset if tp in committed else None, ends[tp], starts.get(tp))
        for tp in found
    }


def _subscribed(group_id: str, *, has_offsets: bool) -> Dialogue[frozenset[str]]:
    """Return the topics that the members of a group subscribe to.

    DescribeGroups does not find groups of the newer protocol (KIP-848). If it does not find the group, return
    no topics if the group has committed offsets (*has_offsets*). Otherwise, raise BrokerError
    GROUP_ID_NOT_FOUND.
    """
    try:
        group = yield from groups.describe_group(group_id)
    except BrokerError as error:
        # DescribeGroups does not find a group of the newer protocol (KIP-848), though it may have offsets.
        if not has_offsets or error.code != ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return frozenset()
    return frozenset(topic for member in group.members for topic in member.subscription)


def _offsets(
    partitions: Iterable[TopicPartition], at: int, isolation_level: int = 0
) -> Dialogue[dict[TopicPartition, int]]:
    wanted = dict.fromkeys(partitions, at)
    found = yield from list_offsets(wanted, isolation_level)
    return {tp: found[tp].offset for tp in wanted}


def _cluster() -> Dialogue[ClusterDescription]:
    metadata = yield Refresh(())
    brokers = tuple(node for _, node in sorted(metadata.nodes.items()))
    return ClusterDescription(metadata.cluster_id, metadata.controller_id, brokers)
