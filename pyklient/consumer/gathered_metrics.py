"""Gathers the counts of a connector's parts into one snapshot."""

import time
from collections.abc import Sequence

from pyklient import metrics
from pyklient.config import ConsumerConfig
from pyklient.consumer.commit.offset_committer import OffsetCommitter
from pyklient.consumer.consumed_positions import Position
from pyklient.consumer.fetch.fetch_position import Cursor
from pyklient.consumer.fetch.fetcher_manager import FetcherManager
from pyklient.consumer.owned_partitions import Ownership
from pyklient.consumer.stream.stream_core import StreamCore
from pyklient.metrics.consumer_counts import PartitionCounts
from pyklient.metrics.traffic import by_broker
from pyklient.net.network_client import NetworkClient
from pyklient.topic_partition import TopicPartition

__all__ = ["consumer_metrics"]


def consumer_metrics(
    config: ConsumerConfig,
    client: NetworkClient,
    fetchers: FetcherManager,
    streams: Sequence[StreamCore],
    ownership: Ownership,
    commits: OffsetCommitter,
) -> "metrics.ConsumerMetrics":
    """Return the metrics of a connector, gathered from its parts."""
    positions: dict[TopicPartition, Position] = {}
    for stream in list(streams):
        stream.check_not_forked()  # a thread of the parent may have held the lock of the stream
        stream.count_handed()
        for partition, reached in stream.handed(in_hand=True).items():
            # A partition may have moved from one of the streams to another.
            if partition not in positions or positions[partition].generation <= reached.generation:
                positions[partition] = reached
    now = time.monotonic()
    cursors = {cursor.partition: cursor for cursor in fetchers.cursors}
    consumed, fetched, errors = fetchers.counts.total(now)
    corrupt = fetchers.counts.corrupt()
    return metrics.ConsumerMetrics(
        client_id=config.client_id,
        group_id=config.group_id,
        time=time.time(),
        age=now - fetchers.counts.began,
        consumed=consumed,
        fetched=fetched,
        errors=errors,
        rebalances=ownership.counts.snapshot(now),
        commits=commits.metrics(),
        partitions={
            at: _partition(counts, cursors.get(at), positions.get(at), now)
            for at, counts in fetchers.counts.partitions().items()
        },
        brokers=by_broker(client.traffic(), now),
        corrupt_batches=corrupt.batches,
        skipped_offsets=corrupt.offsets,
    )


def _partition(
    counts: PartitionCounts, cursor: Cursor | None, reached: Position | None, now: float
) -> "metrics.ConsumedPartition":
    """Return the metrics of one partition. *counts* has the counts of the records that were read from it.
    *cursor* is None if the partition is not assigned to this client now. *reached* is the position of the
    partition in its stream, if there is one."""
    position = None
    if cursor is not None:
        position = cursor.owned.start if reached is None else reached.offset
    return metrics.ConsumedPartition(
        assigned=cursor is not None,
        consumed=counts.consumed.snapshot(now),
        fetched=counts.fetched.snapshot(now),
        position=position,
        end=counts.readable_to,
        queued_bytes=0 if cursor is None else cursor.waiting_bytes,
        errors=dict(counts.errors),
        corrupt_batches=counts.corrupt.batches,
        skipped_offsets=counts.corrupt.offsets,
    )
