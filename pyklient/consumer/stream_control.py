"""Implements the methods of a stream that concern its partitions, such as ``seek``, ``pause``, ``position``
and ``commit_offsets``.

All streams of a connector share one StreamControl. It asks the brokers for offsets that the stream does not
know.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from pyklient import argument_checks
from pyklient.config import ConsumerConfig
from pyklient.consumer.commit.background_commits import CommitCallback
from pyklient.consumer.commit.offset_committer import OffsetCommitter
from pyklient.consumer.commit.offset_storages.offset_storage import OffsetStorage
from pyklient.consumer.commit.offset_storages.saved_positions import SavedPositions, no_commits
from pyklient.consumer.connector_lifecycle import ConnectorLifecycle
from pyklient.consumer.fetch.fetcher_manager import FetcherManager
from pyklient.consumer.group.member_metadata import check_in_kafka
from pyklient.consumer.owned_partitions import Assignment, Ownership
from pyklient.consumer.start_points import StartPoint, start_point
from pyklient.consumer.stream.stream_core import StreamCore
from pyklient.errors import CommitError, ConfigurationError, KafkaTimeoutError
from pyklient.group_metadata import GroupMetadata
from pyklient.kernel import Message
from pyklient.net.network_client import NetworkClient
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["BatchOffsets", "StreamControl"]

_POLL = 0.005


class BatchOffsets(NamedTuple):
    """The offsets after a batch, and the metadata of the member that may commit them in a transaction."""

    offsets: Mapping[TopicPartition, OffsetAndMetadata]
    group_metadata: GroupMetadata


class StreamControl:
    """Implements the methods of KafkaStream that need the stream's connector. Any thread may call them.

    A StreamControl refers to *lifecycle*, so that the connector stays open as long as the program refers to
    one of its streams.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        client: NetworkClient,
        fetchers: FetcherManager,
        store: OffsetStorage,
        commits: OffsetCommitter,
        ownership: Ownership,
        lifecycle: ConnectorLifecycle,
    ) -> None:
        self._config = config
        self._in_group = config.group_id is not None
        self._timeout = config.default_api_timeout_ms / 1000
        self._client = client
        self._fetchers = fetchers
        self._store = store
        self._commits = commits
        self._ownership = ownership
        self._lifecycle = lifecycle
        self._saved = store if isinstance(store, SavedPositions) else None
        """The positions in the program's offset store. None without an offset store."""

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

    def commit_async(
        self,
        streams: Sequence[StreamCore],
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None,
        callback: CommitCallback | None,
    ) -> None:
        """Commit *offsets*, or the positions of *streams*, as ``ConsumerConnector.commit_offsets_async``
        describes it."""
        self.check_commits()
        positions = None if offsets is None else argument_checks.positions(offsets, "offsets")
        if callback is not None and not callable(callback):
            raise TypeError(f"callback must be a function of offsets and an error, not {callback!r}")
        argument_checks.plain_function(callback, "callback")
        self._commits.commit_in_background(streams, positions, self._timeout, callback)

    def save_offsets(self, stream: StreamCore, transaction: Any) -> None:
        """Save the positions of *stream* in *transaction*, as ``KafkaStream.save_offsets`` describes it."""
        self._positions_to_change(stream, "save_offsets").save(transaction, stream)

    def rewind(self, stream: StreamCore) -> None:
        """Continue *stream* at its stored positions, as ``KafkaStream.rewind`` describes it."""
        saved = self._positions_to_change(stream, "rewind")
        self._lifecycle.check_open()
        saved.rewind(stream)

    def redeliver(self, stream: StreamCore) -> None:
        """Go back to the message or batch in hand, as ``KafkaStream.redeliver`` describes it."""
        stream.check_not_forked()
        if self._saved is None:
            stream.redeliver()
        else:
            self._saved.redeliver(stream)

    def seek(
        self, stream: StreamCore, partition: TopicPartition, to: StartPoint, timeout: float | None
    ) -> None:
        """Continue *partition* at *to*, as ``KafkaStream.seek`` describes it."""
        where = argument_checks.partition(partition, "partition")
        point = start_point(to, "to")
        self._check_open(stream)
        left = self.seconds(timeout)
        if not isinstance(point, int):
            stream.cursor(where)  # which raises an error if the stream does not read the partition
            point = self._fetchers.find_offsets({where: point}, left)[where]
        if self._saved is None:
            stream.seek(where, point)
        else:
            self._saved.seek(stream, where, point)

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
        return sorted(each for each, cursor in stream.cursors.items() if cursor.owned.paused)

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
        stream.cursor(where)
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
        """Raise an error if the connector cannot commit: it is closed, has no group, or has an offset store.
        If *at_close* is true, a call from the rebalance listener is allowed while the connector closes."""
        self._lifecycle.check_open(in_listener=at_close and self._ownership.changes_here())
        if not self._in_group:
            raise ConfigurationError("offsets can be committed only for a group; set group_id")
        if self._saved is not None:
            raise no_commits()

    def batch_offsets(self, stream: StreamCore, batch: Collection[Message]) -> BatchOffsets:
        """Return the offsets after *batch*, as ``KafkaStream.batch_offsets`` describes it."""
        self.check_commits()
        check_in_kafka(self._config)
        if self._config.commits_automatically:
            raise ConfigurationError(
                "a transaction cannot store offsets that are also committed automatically, because the "
                "automatic commits continue if the transaction is aborted; set enable_auto_commit=False"
            )
        # First: if the group begins another generation after this, the coordinator refuses the offsets.
        assignment = self._ownership.assignment or Assignment()
        in_hand = stream.batch_in_hand()
        partitions = {TopicPartition(each.topic, each.partition) for each in batch}
        lost = sorted(
            each
            for each in partitions
            if each not in in_hand
            or (cursor := in_hand[each][0]).dropped
            or cursor.owned.lost
            or assignment.partitions.get(each) is not cursor.owned
        )
        if lost:
            raise CommitError(
                "the offsets of the batch cannot be committed, because this member has lost these partitions "
                f"since it got the batch: {', '.join(map(str, lost))}; abort the transaction"
            )
        assert self._config.group_id is not None, "check_commits has checked it"
        return BatchOffsets(
            {
                each: assignment.to_commit(each, position.offset, position.leader_epoch)
                for each, (_, position) in in_hand.items()
            },
            GroupMetadata(self._config.group_id, *assignment.identity),
        )

    def _positions_to_change(self, stream: StreamCore, method: str) -> SavedPositions:
        """Return the positions in the offset store. Raise an error if this thread may not change those of
        *stream* now. *method* is the method that the program has called."""
        stream.check_not_forked()
        if self._saved is None:
            raise ConfigurationError(
                "this connector has no offset store: pass offset_store=… to ConsumerConnector, or commit "
                "offsets with commit_offsets()"
            )
        if self._ownership.changes_here():
            raise ConfigurationError(
                f"{method}() cannot be called in a rebalance listener, because the loop over the stream may "
                "still be handling messages; call it in the thread that reads the stream"
            )
        stream.check_not_read_elsewhere()
        return self._saved

    def seconds(self, timeout: float | None) -> float:
        """Return *timeout*, which is in seconds. If it is None, return ``default_api_timeout_ms`` in
        seconds."""
        return self._timeout if timeout is None else argument_checks.seconds(timeout, "timeout")

    def _position(self, stream: StreamCore, partition: TopicPartition, deadline: float) -> int:
        while True:
            self._check_open(stream)
            if (position := stream.position(partition)) is not None:
                return position
            cursor, left = stream.cursor(partition), max(0.0, deadline - time.monotonic())
            if cursor.owned.held_back and self._fetchers.find_start(stream.queue, cursor, left):
                continue
            if time.monotonic() >= deadline:
                raise KafkaTimeoutError(
                    f"cannot tell the position of {partition} in time, because the offset at which reading "
                    f"begins is still being looked up{self._why()}"
                )
            time.sleep(_POLL)

    def _why(self) -> str:
        failure = self._client.unreachable()
        return "" if failure is None else f"; the last failure: {failure}"

    def _check_open(self, stream: StreamCore) -> None:
        stream.check_not_forked()
        self._lifecycle.check_open()
