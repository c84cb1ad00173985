"""Creates topics in the target cluster of a mirror as they are in the source cluster, and adds partitions to
them when the source topic has more."""

import logging
from typing import Final

from pyklient.admin import Admin
from pyklient.counted import counted
from pyklient.error_codes import ErrorCode
from pyklient.errors import BrokerError, broker_error
from pyklient.log_events import log_fields

__all__ = ["TargetTopics"]

_log = logging.getLogger("pyklient.mirror")

_NOT_COPIED: Final = frozenset(
    {
        "confluent.value.schema.validation",
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "local.retention.bytes",
        "local.retention.ms",
        "message.downconversion.enable",
        "message.format.version",
        "message.timestamp.difference.max.ms",
        "message.timestamp.type",
        "min.insync.replicas",
        "remote.storage.enable",
        "unclean.leader.election.enable",
    }
)
"""The settings of a topic that are not copied. Each of them depends on the brokers or their number, is
unknown to some releases, or would replace the timestamps of the copied records."""


class TargetTopics:
    """The topics of the target cluster. Several threads may use this object at the same time.

    *admin* is a client of the target cluster. If *create* is false, no topic is created, and no partition is
    added.
    """

    def __init__(self, admin: Admin, create: bool) -> None:
        self._admin = admin
        self._create = create
        self._counts: dict[str, int] = {}

    def has(self, topic: str, partition: int) -> bool:
        """Return True if *topic* is known to have *partition* in the target cluster, or if the mirror creates
        no topics."""
        return not self._create or partition < self._counts.get(topic, 0)

    def forget(self, topic: str) -> None:
        """Forget the partitions of *topic*, which the target cluster does not have any more, so that
        ``prepare`` is called again."""
        self._counts.pop(topic, None)

    def prepare(self, source: Admin, source_topic: str, topic: str) -> None:
        """Create *topic* in the target cluster with the settings of *source_topic*, or add partitions to it,
        so that it has at least as many partitions as *source_topic*. *source* is a client of the source
        cluster.

        Raises the error of the cluster that fails.
        """
        self._counts[topic] = self._prepare(source, source_topic, topic)

    def _prepare(self, source: Admin, source_topic: str, topic: str) -> int:
        found = source.describe_topic(source_topic)
        wanted = len(found.partitions)
        existing = self._partition_count(topic)
        if existing is None:
            settings = {
                name: value
                for name, value in found.config.items()
                if value is not None and name not in _NOT_COPIED
            }
            replicas = max((len(each.replicas) for each in found.partitions), default=1)
            replicas = min(max(replicas, 1), max(len(self._admin.cluster().brokers), 1))
            try:
                self._admin.create_topic(topic, wanted, replicas, settings)
            except BrokerError as error:
                # Another task or process may create the topic at the same time.
                if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
            else:
                _log.info(
                    "the mirror has created topic %s with %s, as in the source cluster",
                    topic,
                    counted(wanted, "partition"),
                    extra=log_fields("mirror_topic_created", topic=topic, partitions=wanted),
                )
                return wanted
            existing = self._known_count(topic, 1)
        if existing < wanted:
            self._add_partitions(topic, wanted)
        return max(existing, wanted)

    def _add_partitions(self, topic: str, wanted: int) -> None:
        try:
            self._admin.create_partitions(topic, wanted)
        except BrokerError as error:
            # Another task or process may add them at the same time.
            if error.code != ErrorCode.INVALID_PARTITIONS:
                raise
            self._known_count(topic, wanted)
        else:
            _log.info(
                "the mirror has extended topic %s to %d partitions, as in the source cluster",
                topic,
                wanted,
                extra=log_fields("mirror_partitions_added", topic=topic, partitions=wanted),
            )

    def _known_count(self, topic: str, least: int) -> int:
        """Return the number of partitions of *topic*, which another task or process has created or extended.

        Raises the retriable BrokerError UNKNOWN_TOPIC_OR_PARTITION until the brokers report *least*
        partitions or more.
        """
        if (count := self._partition_count(topic) or 0) < least:
            raise broker_error(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"the brokers do not know yet that topic {topic} has {counted(least, 'partition')}",
            )
        return count

    def _partition_count(self, topic: str) -> int | None:
        """Return the number of partitions of *topic* in the target cluster; None if there is no such
        topic."""
        # Some old brokers create a topic when they are asked for it by name, with their own defaults.
        if topic not in self._admin.topics(internal=True):
            return None
        return len(self._admin.partitions([topic]))
