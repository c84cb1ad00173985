"""How far a streaming query is, for the tools that show the lag of consumer groups.

Spark keeps offsets in a query's checkpoint, where no such tool looks. A listener commits them to a group as
well, as each micro-batch ends. Nobody reads them back: the checkpoint alone says where the query goes on.
"""

import json
import logging
import time
from typing import TYPE_CHECKING, Any, Final, Unpack

from pyspark.sql.streaming.listener import StreamingQueryListener

from pyklient import argument_checks
from pyklient.config import AdminConfig
from pyklient.config.keyword_types import ClientOptions
from pyklient.consumer.group.classic.dialogues import Member
from pyklient.consumer.group.membership import Assignment
from pyklient.consumer.offsets.kafka import commit_offsets
from pyklient.errors import ConfigurationError, broker_error
from pyklient.net.client import NetworkClient
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

__all__ = ["LagListener", "kafka_offsets"]

log = logging.getLogger("pyklient.spark")

_PATIENCE_MS: Final = 10_000
_REST: Final = 30.0
"""Seconds without a further attempt after one that failed: Spark's other listeners wait for this one."""


class LagListener(StreamingQueryListener):
    """Commits the end of each micro-batch to *group_id*, so that tools for groups show a query's lag.

    ::

        spark.streams.addListener(LagListener("localhost:9092", "clicks-to-parquet", query_name="clicks"))

    It counts for the queries called *query_name*, or for all of this session. Sources are
    ``format("pyklient")`` and Spark's own Kafka source; others are passed over. The group is for this alone:
    one that consumers belong to refuses the commits. *options* are those that every client takes.

    What goes wrong is logged, and never stops a query. Raises ConfigurationError for wrong options.
    """

    def __init__(
        self,
        bootstrap_servers: "str | Sequence[str]",
        group_id: str,
        *,
        query_name: str | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        if not argument_checks.text(group_id, "group_id"):
            raise ConfigurationError("group_id is empty: name the group that is to show the lag")
        given: dict[str, Any] = {"default_api_timeout_ms": _PATIENCE_MS, **options}
        self._config = AdminConfig.from_options({"bootstrap_servers": bootstrap_servers, **given})
        self._group_id = group_id
        self._query_name = query_name
        self._ours: set[str] = set()
        self._waiting: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._not_before = 0.0
        self._client: NetworkClient | None = None

    def onQueryStarted(self, event: "QueryStartedEvent") -> None:
        """Take note of a query that it counts for."""
        if self._query_name is None or event.name == self._query_name:
            self._ours.add(str(event.runId))

    def onQueryProgress(self, event: "QueryProgressEvent") -> None:
        """Commit what a micro-batch has come to."""
        progress = event.progress
        if self._query_name is not None and progress.name != self._query_name:
            return
        for source in progress.sources:
            self._waiting.update(kafka_offsets(source.endOffset))
        if time.monotonic() >= self._not_before:
            self._commit()

    def onQueryIdle(self, event: "QueryIdleEvent") -> None:
        """Nothing has changed."""

    def onQueryTerminated(self, event: "QueryTerminatedEvent") -> None:
        """Commit what could not be committed yet, and close the connections."""
        if str(event.runId) not in self._ours:
            return
        self._ours.discard(str(event.runId))
        self._commit()
        if not self._ours:
            self.close()

    def close(self) -> None:
        """Close the connections, as the end of the last query does. They are opened again when needed."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _commit(self) -> None:
        """Commit what is waiting; what fails waits on, or is dropped where trying again is of no use."""
        new = {each: at for each, at in self._waiting.items() if self._committed.get(each) != at}
        if not new:
            return
        try:
            refused = self._play(new)
        except Exception as error:
            self._not_before = time.monotonic() + _REST
            log.warning("group %s does not show the lag for now: %s", self._group_id, error)
            return
        if refused:
            self._not_before = time.monotonic() + _REST
        for each, code in refused.items():
            log.warning("%s", broker_error(code, f"group {self._group_id}, committing {each}"))
        self._committed.update(new)
        self._waiting.clear()

    def _play(self, offsets: "Mapping[TopicPartition, int]") -> "dict[TopicPartition, int]":
        config = self._config
        if self._client is None:
            self._client = NetworkClient(config)
        # Commits alone: nothing joins.
        nobody = Member(self._group_id, None, "range", session_timeout_ms=0, rebalance_timeout_ms=0)
        positions = {each: OffsetAndMetadata(at) for each, at in offsets.items()}
        dialogue = commit_offsets(nobody, Assignment({}), positions)
        return self._client.play(dialogue, config.default_api_timeout_ms / 1000)


def kafka_offsets(end: str | None) -> dict[TopicPartition, int]:
    """The offsets in *end*, a source's as Spark reports it; nothing if that source is not one of Kafka's."""
    try:
        topics = json.loads(end or "null")
    except ValueError:
        return {}
    if not isinstance(topics, dict):
        return {}
    found: dict[TopicPartition, int] = {}
    for topic, partitions in topics.items():
        if not isinstance(partitions, dict):
            return {}
        for partition, offset in partitions.items():
            if not (partition.isascii() and partition.isdigit()) or type(offset) is not int or offset < 0:
                return {}
            found[TopicPartition(topic, int(partition))] = offset
    return found
