"""The metrics of a Producer or a ConsumerConnector: totals since it was made, and present rates.

``Producer.metrics`` and ``ConsumerConnector.metrics`` return snapshots, which are the dataclasses of this
package.
"""

from typing import TYPE_CHECKING

from pyklient.lazy_imports import on_first_use

if TYPE_CHECKING:
    from pyklient.metrics.snapshots import (
        BrokerMetrics,
        CommitMetrics,
        ConsumedPartition,
        ConsumerMetrics,
        Durations,
        ProducedPartition,
        ProducerMetrics,
        RebalanceMetrics,
        RequestMetrics,
        Throughput,
    )

__all__ = [
    "BrokerMetrics",
    "CommitMetrics",
    "ConsumedPartition",
    "ConsumerMetrics",
    "Durations",
    "ProducedPartition",
    "ProducerMetrics",
    "RebalanceMetrics",
    "RequestMetrics",
    "Throughput",
]

if not TYPE_CHECKING:  # Clients count from the beginning, but few programs ask for a snapshot.
    __getattr__ = on_first_use(globals(), dict.fromkeys(__all__, "pyklient.metrics.snapshots"))
