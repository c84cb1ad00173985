"""Gathers the counts of a producer's parts into one snapshot."""

import time

from pyklient import metrics
from pyklient.config import ProducerConfig
from pyklient.metrics.traffic import by_broker
from pyklient.net.network_client import NetworkClient
from pyklient.producer.accumulate.accumulator import RecordAccumulator

__all__ = ["producer_metrics"]


def producer_metrics(
    config: ProducerConfig, client: NetworkClient, accumulator: RecordAccumulator
) -> "metrics.ProducerMetrics":
    """Return the metrics of a producer, gathered from its parts."""
    now, counts = time.monotonic(), accumulator.counts
    waiting = accumulator.unfinished()
    total = counts.total(now)
    sealed, compressed = counts.sealed.snapshot(now), counts.compressed.snapshot(now)
    largest = max(1, min(config.batch_size, config.max_request_size))
    return metrics.ProducerMetrics(
        client_id=config.client_id,
        time=time.time(),
        age=now - counts.began,
        delivered=total.delivered,
        failed_records=total.failed_records,
        retried_batches=total.retried_batches,
        errors=total.errors,
        waiting_records=sum(batch.count for batch in waiting),
        waiting_batches=len(waiting),
        buffer_used=accumulator.appender.used_memory,
        buffer_memory=config.buffer_memory,
        batch_fill=_ratio(sealed.bytes_per_second, sealed.batches_per_second * largest),
        compression_ratio=_ratio(compressed.bytes_per_second, sealed.bytes_per_second),
        queue_time=counts.queue_time.snapshot([counts.queue_time], now),
        delivery_time=counts.delivery_time.snapshot([counts.delivery_time], now),
        partitions=counts.partitions(now),
        brokers=by_broker(client.traffic(), now),
    )


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
