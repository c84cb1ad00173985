"""Topics: their names, ids, settings and partitions, and the rules for making and removing them."""

import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from pyklient.broker.api_errors import Refusal
from pyklient.broker.cluster.topic_configs import TopicConfig, topic_config_kinds
from pyklient.broker.config import BrokerSettings
from pyklient.broker.log.clean_shutdown import LogState
from pyklient.broker.log.partition_log import PartitionLog
from pyklient.error_codes import ErrorCode

__all__ = ["Topic", "Topics"]

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


@dataclass(slots=True)
class Topic:
    """One topic. ``configs`` are the settings given to it; ``logs`` its partitions, by number."""

    name: str
    topic_id: bytes
    configs: dict[str, str]
    config: TopicConfig
    logs: list[PartitionLog]


class Topics:
    """All topics of a broker. ``on_change`` is called when the set of topics, or one of them, has changed."""

    def __init__(self, directory: Path, settings: BrokerSettings, on_change: Callable[[], object]) -> None:
        self._directory = directory
        self._settings = settings
        self._on_change = on_change
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[bytes, Topic] = {}
        self._by_flat_name: dict[str, str] = {}
        self._partitions = 0
        self._kinds = {kind.name: kind for kind in topic_config_kinds(settings)}

    @property
    def names(self) -> list[str]:
        return sorted(self._by_name)

    def find(self, name: str) -> Topic | None:
        return self._by_name.get(name)

    def find_id(self, topic_id: bytes) -> Topic | None:
        return self._by_id.get(topic_id)

    def partition(self, name: str, index: int) -> PartitionLog:
        """The log of a partition; Refusal (UNKNOWN_TOPIC_OR_PARTITION) when there is none."""
        topic = self._by_name.get(name)
        if topic is None or not 0 <= index < len(topic.logs):
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {name}-{index}")
        return topic.logs[index]

    def logs(self) -> list[PartitionLog]:
        """The logs of all partitions of all topics."""
        return [log for topic in self._by_name.values() for log in topic.logs]

    def check_name(self, name: str) -> None:
        """Raise Refusal (INVALID_TOPIC_EXCEPTION) if no topic can have *name*."""
        if not _NAME.fullmatch(name) or name in (".", ".."):
            raise Refusal(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"topic name {name[:260]!r} is not 1 to 249 characters of a-z, A-Z, 0-9, '.', '_', '-'",
            )

    def check_new(self, name: str, partitions: int, configs: Mapping[str, str | None]) -> dict[str, str]:
        """Whether a topic could be created so; returns its settings. Raises Refusal with Kafka's codes."""
        self.check_name(name)
        if name in self._by_name:
            raise Refusal(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} already exists")
        other = self._by_flat_name.get(_flat(name))
        if other is not None:
            raise Refusal(
                ErrorCode.INVALID_TOPIC_EXCEPTION,
                f"topic {name!r} collides with {other!r}: '.' and '_' count as one",
            )
        self._check_partitions(partitions)
        checked: dict[str, str] = {}
        for key, value in configs.items():
            kind = self._kinds.get(key)
            if kind is None:
                raise Refusal(ErrorCode.INVALID_CONFIG, f"unknown topic setting {key!r}")
            kind.check(value)
            checked[key] = str(value)
        return checked

    def create(self, name: str, partitions: int, configs: Mapping[str, str | None]) -> Topic:
        """A new topic with empty partitions, on disk when this returns. Raises Refusal as ``check_new``."""
        checked = self.check_new(name, partitions, configs)
        self._clear(name, range(partitions))
        topic = self._open(name, uuid4().bytes, checked, partitions, {})
        self._on_change()
        return topic

    def load(self, name: str, facts: Mapping[str, object], left: Mapping[str, LogState]) -> None:
        """Take up a topic as it was saved (see ``facts``), with what its directories hold.

        *left* are the states of logs after a clean stop (see ``states``).
        """
        configs, partitions = facts["configs"], facts["partitions"]
        assert isinstance(configs, dict)
        assert isinstance(partitions, int)
        self._open(name, bytes.fromhex(str(facts["id"])), configs, partitions, left)

    def facts(self) -> dict[str, dict[str, object]]:
        """What has to be saved of the topics, for ``load``."""
        return {
            topic.name: {"id": topic.topic_id.hex(), "partitions": len(topic.logs), "configs": topic.configs}
            for topic in self._by_name.values()
        }

    def states(self) -> dict[str, LogState]:
        """What a clean stop leaves for ``load``: the state of each log, by the name of its directory."""
        return {log.directory.name: log.state() for log in self.logs()}

    def grow(self, name: str, total: int, *, validate_only: bool) -> None:
        """Give a topic *total* partitions; Refusal unless that is more than it has."""
        topic = self._by_name.get(name)
        if topic is None:
            raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}")
        if total <= len(topic.logs):
            raise Refusal(
                ErrorCode.INVALID_PARTITIONS,
                f"topic {name!r} has {len(topic.logs)} partitions, {total} is not more",
            )
        self._check_partitions(total - len(topic.logs))
        if not validate_only:
            added = range(len(topic.logs), total)
            self._clear(name, added)
            topic.logs.extend(self._log(name, index, topic.config, {}) for index in added)
            self._partitions += len(added)
            self._on_change()

    def delete(self, topic: Topic) -> None:
        """Remove a topic and all its records."""
        del self._by_name[topic.name]
        del self._by_id[topic.topic_id]
        del self._by_flat_name[_flat(topic.name)]
        self._partitions -= len(topic.logs)
        self._on_change()
        for log in topic.logs:
            log.delete()

    def close(self) -> None:
        for log in self.logs():
            log.close()

    def _check_partitions(self, count: int) -> None:
        if count < 1:
            raise Refusal(ErrorCode.INVALID_PARTITIONS, f"{count} partitions: a topic has at least one")
        limit = self._settings.max_partitions
        if self._partitions + count > limit:
            raise Refusal(ErrorCode.INVALID_PARTITIONS, f"this broker holds {limit} partitions at most")

    def _open(
        self,
        name: str,
        topic_id: bytes,
        configs: dict[str, str],
        partitions: int,
        left: Mapping[str, LogState],
    ) -> Topic:
        config = TopicConfig.of(self._settings, configs)
        logs = [self._log(name, index, config, left) for index in range(partitions)]
        topic = Topic(name, topic_id, configs, config, logs)
        self._by_name[name] = self._by_id[topic_id] = topic
        self._by_flat_name[_flat(name)] = name
        self._partitions += partitions
        return topic

    def _clear(self, name: str, partitions: range) -> None:
        """Directories of a topic that a crash left half made or half deleted must not come back to life."""
        for index in partitions:
            with suppress(FileNotFoundError):
                shutil.rmtree(self._directory / f"{name}-{index}")

    def _log(self, name: str, index: int, config: TopicConfig, left: Mapping[str, LogState]) -> PartitionLog:
        directory = self._directory / f"{name}-{index}"
        return PartitionLog(
            directory,
            config,
            max_producer_ids=self._settings.max_producer_ids,
            left=left.get(directory.name),
        )


def _flat(name: str) -> str:
    """Names that differ in '.' and '_' only cannot exist side by side: Kafka's metrics would mix them up."""
    return name.replace(".", "_")
