"""The calls of a stream that concern its partitions: where to continue, what to pause, how far it has read.

The streams of a connector share one StreamControl. It looks up in the cluster what the stream does not know.
"""

import time
from collections.abc import Mapping, Sequence

from pyklient import argument_checks
from pyklient.config import ConsumerConfig
from pyklient.consumer.connector_lifecycle import ConnectorLifecycle
from pyklient.consumer.fetch.fetcher_manager import FetcherManager
from pyklient.consumer.offsets.offset_committer import OffsetCommitter
from pyklient.consumer.offsets.offset_store import OffsetStore
from pyklient.consumer.owned_partitions import Ownership
from pyklient.consumer.start_points import StartPoint, start_point
from pyklient.consumer.stream.stream_core import StreamCore
from pyklient.errors import ConfigurationError, KafkaTimeoutError
from pyklient.net.network_client import NetworkClient
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["StreamControl"]

_POLL = 0.005


class StreamControl:
    """The calls of KafkaStream that need its connector. Any thread may make them.

    It refers to *lifecycle*, so that the connector stays open as long as the user has one of its streams.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        client: NetworkClient,
        fetchers: FetcherManager,
        store: OffsetStore,
        commits: OffsetCommitter,
        ownership: Ownership,
        lifecycle: ConnectorLifecycle,
    ) -> None:
        self._in_group = config.group_id is not None
        self._timeout = config.default_api_timeout_ms / 1000
        self._client = client
        self._fetchers = fetchers
        self._store = store
        self._commits = commits
        self._ownership = ownership
        self._lifecycle = lifecycle

    def commit(
        self,
        streams: Sequence[StreamCore],
        timeout: float | None,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        retry_on_failure: bool = True,
    ) -> None:
        """Commit *offsets*, or the positions of *streams*, as ``ConsumerConnector.commit_offsets`` describes
        it."""
        self.check_commits(at_close=True)
        once = not argument_checks.flag(retry_on_failure, "retry_on_failure")
        if offsets is None:
            self._commits.commit(streams, self.seconds(timeout), once=once)
        else:
            positions = argument_checks.positions(offsets, "offsets")
            self._commits.commit_these(positions, self.seconds(timeout), once=once)

    def seek(
        self, stream: StreamCore, partition: TopicPartition, to: StartPoint, timeout: float | None
    ) -> None:
        """Continue *partition* at *to*, as ``KafkaStream.seek`` describes it."""
        where = argument_checks.partition(partition, "partition")
        point = start_point(to, "to")
        self._check_open(stream)
        left = self.seconds(timeout)
        if not isinstance(point, int):
            stream.check_reads([where])
            point = self._fetchers.find_offsets({where: point}, left)[where]
        stream.seek(where, point)

    def pause(self, stream: StreamCore, partitions: Sequence[TopicPartition]) -> None:
        """Stop handing out messages of *partitions*, as ``KafkaStream.pause`` describes it."""
        wanted = argument_checks.partitions(partitions, "partitions")
        self._check_open(stream)
        stream.pause(wanted)

    def resume(self, stream: StreamCore, partitions: Sequence[TopicPartition]) -> None:
        """Continue *partitions* after a pause, as ``KafkaStream.resume`` describes it."""
        wanted = argument_checks.partitions(partitions, "partitions")
        self._check_open(stream)
        stream.resume(wanted)

    def paused(self, stream: StreamCore) -> list[TopicPartition]:
        """Return the partitions of *stream* that are paused."""
        self._check_open(stream)
        return sorted(each for each, cursor in stream.cursors.items() if cursor.paused)

    def position(self, stream: StreamCore, partition: TopicPartition, timeout: float | None) -> int:
        """Return the position of *partition*, as ``KafkaStream.position`` describes it."""
        where = argument_checks.partition(partition, "partition")
        return self._position(stream, where, time.monotonic() + self.seconds(timeout))

    def committed(
        self, stream: StreamCore, partition: TopicPartition, timeout: float | None
    ) -> OffsetAndMetadata | None:
        """Return the committed offset of *partition*, as ``KafkaStream.committed`` describes it."""
        where = argument_checks.partition(partition, "partition")
        self._check_open(stream)
        if not self._in_group:
            raise ConfigurationError("offsets are committed only for a group; set group_id")
        stream.check_reads([where])
        return self._store.fetch([where], self.seconds(timeout))[where]

    def lag(self, stream: StreamCore, timeout: float | None) -> dict[TopicPartition, int]:
        """Return the lag of the partitions of *stream*, as ``KafkaStream.lag`` describes it."""
        self._check_open(stream)
        deadline = time.monotonic() + self.seconds(timeout)
        partitions = sorted(stream.cursors)
        ends = self._fetchers.find_offsets(
            dict.fromkeys(partitions, "end"), max(0.0, deadline - time.monotonic())
        )
        return {each: max(0, ends[each] - self._position(stream, each, deadline)) for each in partitions}

    def check_commits(self, *, at_close: bool = False) -> None:
        """Raise an error if the connector cannot commit. With *at_close*, its rebalance listener can commit
        what is revoked because the connector closes."""
        self._lifecycle.check_open(in_listener=at_close and self._ownership.changes_here())
        if not self._in_group:
            raise ConfigurationError("offsets can be committed only for a group; set group_id")

    def seconds(self, timeout: float | None) -> float:
        """Return *timeout* in seconds. None stands for ``default_api_timeout_ms``."""
        return self._timeout if timeout is None else argument_checks.seconds(timeout, "timeout")

    def _position(self, stream: StreamCore, partition: TopicPartition, deadline: float) -> int:
        while True:
            self._check_open(stream)
            if (position := stream.position(partition)) is not None:
                return position
            if time.monotonic() >= deadline:
                raise KafkaTimeoutError(
                    f"the position of {partition} is not known in time, because the offset at which reading "
                    f"begins is still being looked up{self._why()}"
                )
            time.sleep(_POLL)

    def _why(self) -> str:
        failure = self._client.unreachable()
        return "" if failure is None else f"; the last failure: {failure}"

    def _check_open(self, stream: StreamCore) -> None:
        stream.check_not_forked()
        self._lifecycle.check_open()
