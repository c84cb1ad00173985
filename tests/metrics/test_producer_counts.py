"""The counts of a producer: the totals are the sums over the partitions."""

import pytest

from pyklient.metrics import producer_counts
from pyklient.metrics.producer_counts import ProducerCounts
from pyklient.topic_partition import TopicPartition

_CLICKS, _VIEWS = TopicPartition("clicks", 0), TopicPartition("views", 3)


def test_the_totals_are_the_sums_over_the_partitions() -> None:
    counts = _counted()
    total = counts.total(10.0)
    assert (total.delivered.batches, total.delivered.records, total.delivered.bytes) == (2, 30, 3000)
    assert total.delivered.records_per_second == pytest.approx(30 / 10)
    assert (total.failed_records, total.retried_batches) == (4, 1)
    assert total.errors == {"NOT_LEADER_OR_FOLLOWER": 2}


def test_the_totals_stay_when_the_counts_of_a_topic_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_counts, "_MOST", 1)
    counts = _counted()
    before = counts.total(10.0)
    counts.forget("views")
    total = counts.total(10.0)
    assert list(counts.partitions(10.0)) == [_CLICKS]
    assert (total.delivered.batches, total.delivered.records, total.delivered.bytes) == (2, 30, 3000)
    assert (total.failed_records, total.retried_batches) == (before.failed_records, before.retried_batches)
    assert total.errors == before.errors


def _counted() -> ProducerCounts:
    """Return the counts of two partitions, at the time 10."""
    counts = ProducerCounts(0.0)
    counts.deliver(_CLICKS, 10, 1000, 0.5, 10.0)
    counts.deliver(_VIEWS, 20, 2000, 0.5, 10.0)
    counts.fail(_VIEWS, 4)
    counts.retry(_VIEWS)
    counts.error(_CLICKS, 6)
    counts.error(_VIEWS, 6)
    return counts
