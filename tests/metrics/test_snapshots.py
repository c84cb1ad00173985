"""The lag in the snapshots that a consumer returns."""

import dataclasses

from pyklient.metrics import (
    CommitMetrics,
    ConsumedPartition,
    ConsumerMetrics,
    RebalanceMetrics,
    Throughput,
)
from pyklient.topic_partition import TopicPartition


def snapshot(*partitions: ConsumedPartition) -> ConsumerMetrics:
    return ConsumerMetrics(
        client_id="",
        group_id=None,
        time=0.0,
        age=0.0,
        consumed=Throughput(),
        fetched=Throughput(),
        errors={},
        rebalances=RebalanceMetrics(),
        commits=CommitMetrics(),
        partitions={TopicPartition("t", number): each for number, each in enumerate(partitions)},
        brokers={},
    )


def test_the_lag_of_a_consumer_is_not_known_before_that_of_each_assigned_partition_is_known() -> None:
    read, unread = ConsumedPartition(position=3, end=7), ConsumedPartition(position=3)
    assert (snapshot(read, read).lag, snapshot(read, unread).lag, snapshot(unread).lag) == (8, None, None)
    assert snapshot(read, ConsumedPartition(assigned=False)).lag == 4
    assert snapshot().lag == 0


def test_dictionaries_of_a_snapshot_have_the_lags() -> None:
    fields = dataclasses.asdict(snapshot(ConsumedPartition(position=3, end=7)))
    assert (fields["lag"], fields["partitions"][TopicPartition("t", 0)]["lag"]) == (4, 4)
