"""The topics of a cluster: their names, ids, settings and partitions, and the rules for changing them.

The records are stored elsewhere: each node has the logs of its own partitions (``broker/log``).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import uuid4

from pyklient.broker.api_errors import ApiError
from pyklient.broker.cluster.offsets_topic import OFFSETS_TOPIC
from pyklient.broker.cluster.topic_configs import TopicConfigDef, topic_config_defs
from pyklient.broker.cluster.transaction_topic import TRANSACTION_TOPIC
from pyklient.broker.config import BrokerConfig
from pyklient.counted import counted
from pyklient.error_codes import ErrorCode

__all__ = ["Partition", "Topic", "Topics"]

_INTERNAL = (OFFSETS_TOPIC, TRANSACTION_TOPIC)
_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


@dataclass(slots=True)
class Partition:
    """A partition, the node that leads it, and the nodes that have a replica of it.

    ``leader_epoch`` grows by one with each change of the leader.
    """

    topic: str
    index: int
    leader_id: int
    leader_epoch: int
    replica_ids: list[int]


@dataclass(slots=True)
class Topic:
    """A topic. ``configs`` has the settings that were given when it was created; all other settings have
    their defaults."""

    name: str
    topic_id: bytes
    configs: dict[str, str]
    partitions: list[Partition]

    @property
    def is_internal(self) -> bool:
        """True if brokers store their own state in the topic, so that clients may not write to it."""
        return self.name in _INTERNAL


class Topics:
    """All topics of a cluster. ``revision`` grows by one with each change of a topic."""

    def __init__(self, config: BrokerConfig, node_ids: Sequence[int]) -> None:
        self.config_defs = topic_config_defs(config)
        self.revision = 0
        self._max_partitions = config.max_partitions
        self._node_ids = sorted(node_ids)
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._by_metric_name: dict[str, str] = {}
        self._partitions = 0
        self._defs_by_name: dict[str, TopicConfigDef] = {each.name: each for each in self.config_defs}

    # Finding

    def all(self) -> list[Topic]:
        """Return all topics, ordered by name."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    def find(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def find_id(self, topic_id: bytes) -> Topic | None:
        return self._by_id.get(topic_id)

    def partition(self, name: str, index: int) -> Partition:
        """Return partition *index* of topic *name*. Raises ApiError (UNKNOWN_TOPIC_OR_PARTITION) if the
        partition does not exist."""
        topic = self._by_name.get(name)
        if topic is None or not 0 <= index < len(topic.partitions):
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {name}-{index} does not exist")
        return topic.partitions[index]

    def partition_by_id(self, topic_id: bytes, index: int) -> Partition:
        """Return partition *index* of the topic with *topic_id*.

        Raises ApiError: UNKNOWN_TOPIC_ID if the topic does not exist, UNKNOWN_TOPIC_OR_PARTITION if the
        partition does not exist.
        """
        topic = self._by_id.get(topic_id)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, f"no topic has the id {topic_id.hex()}")
        return self.partition(topic.name, index)

    def config_values(self, topic: Topic) -> dict[str, str]:
        """Return the value of every setting of *topic*, defaults included."""
        return {each.name: topic.configs.get(each.name, each.default) for each in self.config_defs}

    # Changing

    def check_name(self, name: str) -> None:
        """Raise ApiError (INVALID_TOPIC_EXCEPTION) if *name* is not allowed as the name of a topic."""
        if not _NAME.fullmatch(name) or name in (".", ".."):
            raise ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"topic name {name[:260]!r} must have 1 to 249 characters of a-z, A-Z, 0-9, '.', '_' and '-'",
            )

    def prepare(self, name: str, partitions: int, configs: Mapping[str, str | None]) -> Topic:
        """Return a new topic. The caller adds it to the cluster with ``add``. Raises ApiError if the topic
        cannot be created."""
        self.check_name(name)
        if name in self._by_name:
            raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} already exists")
        other = self._by_metric_name.get(_metric_name(name))
        if other is not None:
            raise ApiError(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"topic name {name!r} collides with {other!r}, because '.' and '_' count as the same "
                "character",
            )
        if name not in _INTERNAL:
            self._check_partitions(partitions)
        checked: dict[str, str] = {}
        for key, value in configs.items():
            definition = self._defs_by_name.get(key)
            if definition is None:
                raise ApiError(ErrorCode.INVALID_CONFIG, f"unknown topic setting {key!r}")
            definition.check(value)
            checked[key] = str(value)
        return Topic(name, uuid4().bytes, checked, self._new_partitions(name, range(partitions)))

    def prepare_growth(self, name: str, total: int) -> tuple[Topic, list[Partition]]:
        """Return the topic *name*, and the new partitions that bring its number of partitions to *total*.
        The caller adds them with ``add_partitions``. Raises ApiError if the topic does not exist, already
        has *total* partitions or more, or cannot have that many.
        """
        topic = self._by_name.get(name)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {name!r} does not exist")
        count = len(topic.partitions)
        if total <= count:
            raise ApiError(
                ErrorCode.INVALID_PARTITIONS,
                f"topic {name!r} already has {counted(count, 'partition')}; ask for more than {count}, "
                f"not for {total}",
            )
        self._check_partitions(total - count)
        return topic, self._new_partitions(name, range(count, total))

    def replica_ids(self, index: int) -> list[int]:
        """Return the ids of the nodes that get a replica of the new partition *index* of a topic.

        Each partition has one replica. The partitions of a topic are spread over all nodes in turn.
        """
        return [self._node_ids[index % len(self._node_ids)]]

    def add(self, topic: Topic) -> None:
        self._by_name[topic.name] = self._by_id[topic.topic_id] = topic
        self._by_metric_name[_metric_name(topic.name)] = topic.name
        self._partitions += len(topic.partitions)
        self.revision += 1

    def add_partitions(self, topic: Topic, partitions: Sequence[Partition]) -> None:
        topic.partitions += partitions
        self._partitions += len(partitions)
        self.revision += 1

    def delete(self, topic: Topic) -> None:
        del self._by_name[topic.name]
        del self._by_id[topic.topic_id]
        del self._by_metric_name[_metric_name(topic.name)]
        self._partitions -= len(topic.partitions)
        self.revision += 1

    # Saving

    def saved(self) -> dict[str, dict[str, object]]:
        """Return the data of all topics in a form that can be saved. ``load`` reads this form."""
        return {
            topic.name: {
                "id": topic.topic_id.hex(),
                "partitions": len(topic.partitions),
                "configs": topic.configs,
            }
            for topic in self._by_name.values()
        }

    def load(self, saved: Mapping[str, Mapping[str, object]]) -> None:
        """Add the topics in *saved*, which is data that the method ``saved`` returned before a restart."""
        for name, topic in saved.items():
            configs, partitions = topic["configs"], topic["partitions"]
            assert isinstance(configs, dict)
            assert isinstance(partitions, int)
            added = self._new_partitions(name, range(partitions))
            self.add(Topic(name, bytes.fromhex(str(topic["id"])), configs, added))

    def _check_partitions(self, count: int) -> None:
        if count < 1:
            raise ApiError(ErrorCode.INVALID_PARTITIONS, f"a topic needs at least one partition, not {count}")
        if self._partitions + count > self._max_partitions:
            raise ApiError(
                ErrorCode.INVALID_PARTITIONS,
                f"{counted(count, 'more partition')} would exceed max_partitions={self._max_partitions} of "
                "this broker",
            )

    def _new_partitions(self, topic: str, indexes: range) -> list[Partition]:
        return [
            Partition(topic, index, leader_id=replica_ids[0], leader_epoch=0, replica_ids=replica_ids)
            for index in indexes
            for replica_ids in [self.replica_ids(index)]
        ]


def _metric_name(name: str) -> str:
    """Return the name under which Kafka's metrics show the topic *name*: each dot is replaced by an
    underscore.

    Two topics of a cluster may not have the same name in metrics.
    """
    return name.replace(".", "_")
