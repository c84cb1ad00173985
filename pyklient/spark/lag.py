"""Shows the progress of a streaming query in tools that display the lag of consumer groups.

Spark keeps the offsets of a query in its checkpoint, which such tools do not read. Therefore a listener also
commits these offsets to a consumer group, at the end of each micro-batch. The committed offsets are for
display only: a query continues from its checkpoint.
"""

import json
import logging
import time
from typing import TYPE_CHECKING, Any, Final, Unpack

from pyspark.sql.streaming.listener import StreamingQueryListener

from pyklient import argument_checks
from pyklient.config import AdminConfig
from pyklient.config.keyword_types import ClientOptions
from pyklient.config.unknown_options import did_you_mean
from pyklient.consumer.commit.offset_storages.kafka_offset_storage import commit_offsets
from pyklient.consumer.commit.offset_storages.offset_storage import Rejections
from pyklient.consumer.group_coordinator_client import GroupCoordinatorClient
from pyklient.consumer.owned_partitions import NOBODY
from pyklient.errors import ConfigurationError
from pyklient.net.network_client import NetworkClient
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

_API_TIMEOUT_MS: Final = 10_000
_RETRY_AFTER: Final = 30.0
"""The number of seconds between a failed commit and the next attempt. An attempt delays Spark's other
listeners, so attempts must be rare."""


class LagListener(StreamingQueryListener):
    """A listener that commits the end offsets of each micro-batch to the group *group_id*, so that tools for
    consumer groups show the lag of a query.

    ::

        spark.streams.addListener(LagListener("localhost:9092", "clicks-to-parquet", query_name="clicks"))

    The listener commits the offsets of queries with the name *query_name*, or of all queries of the session
    by default. It supports ``format("pyklient")`` and Spark's own Kafka source. Use a group that has no
    consumers: a group with consumers rejects the commits. *options* are options of pyklient's clients. Errors
    are logged, and never stop a query. Raises ConfigurationError for wrong options.
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
            raise ConfigurationError(
                "group_id is empty: pass the name of the group to which offsets are committed"
            )
        own = {"query_name", *ClientOptions.__annotations__}
        for name in options:
            if name not in own and (hint := did_you_mean(name, own)):
                raise ConfigurationError(f"unknown option {name!r} of LagListener{hint}")
        given: dict[str, Any] = {"default_api_timeout_ms": _API_TIMEOUT_MS, **options}
        self._config = AdminConfig.from_options({"bootstrap_servers": bootstrap_servers, **given})
        self._group_id = group_id
        self._query_name = query_name
        self._runs: set[str] = set()
        self._uncommitted: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._not_before = 0.0
        self._client: NetworkClient | None = None

    def onQueryStarted(self, event: "QueryStartedEvent") -> None:
        """If this listener commits the offsets of the query, remember the query. The listener's connections
        stay open until the last remembered query has ended."""
        if self._query_name is None or event.name == self._query_name:
            self._runs.add(str(event.runId))

    def onQueryProgress(self, event: "QueryProgressEvent") -> None:
        """Commit the end offsets of the micro-batch that a query has finished."""
        progress = event.progress
        if self._query_name is not None and progress.name != self._query_name:
            return
        for source in progress.sources:
            self._uncommitted.update(kafka_offsets(source.endOffset))
        if time.monotonic() >= self._not_before:
            self._commit()

    def onQueryIdle(self, event: "QueryIdleEvent") -> None:
        """Do nothing, because no offset has changed."""

    def onQueryTerminated(self, event: "QueryTerminatedEvent") -> None:
        """Commit the offsets that are not committed yet. Close the connections if no other query is running
        whose offsets this listener commits."""
        if str(event.runId) not in self._runs:
            return
        self._runs.discard(str(event.runId))
        self._commit()
        if not self._runs:
            self.close()

    def close(self) -> None:
        """Close the connections to the brokers. A later commit opens new ones."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _commit(self) -> None:
        """Commit the latest offsets of the queries.

        If the brokers cannot be reached, the offsets are kept for the next attempt. Offsets that a broker
        rejects are dropped.
        """
        new = {each: at for each, at in self._uncommitted.items() if self._committed.get(each) != at}
        if not new:
            return
        try:
            rejected = self._play(new)
        except Exception as error:
            self._not_before = time.monotonic() + _RETRY_AFTER
            log.warning(
                "the offsets of streaming queries could not be committed to group %s: %s",
                self._group_id,
                error,
            )
            return
        if rejected:
            self._not_before = time.monotonic() + _RETRY_AFTER
        for each, why in rejected.items():
            log.warning(
                "the offset of group %s in %s could not be committed: %s", self._group_id, each, why.error
            )
        self._committed.update(new)
        self._uncommitted.clear()

    def _play(self, offsets: "Mapping[TopicPartition, int]") -> Rejections:
        config = self._config
        if self._client is None:
            self._client = NetworkClient(config)
        # Nothing joins the group. The commits are those of a consumer without a membership.
        positions = {each: OffsetAndMetadata(at) for each, at in offsets.items()}
        dialogue = commit_offsets(GroupCoordinatorClient(self._group_id), NOBODY, positions)
        return self._client.play(dialogue, config.default_api_timeout_ms / 1000)


def kafka_offsets(end: str | None) -> dict[TopicPartition, int]:
    """Parse *end*, the end offset of a micro-batch as a source reports it. The result is empty if the source
    does not read from Kafka."""
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
