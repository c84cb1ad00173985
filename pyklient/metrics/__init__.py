"""The metrics of a Producer or a ConsumerConnector: totals since it was made, and present rates.

``Producer.metrics`` and ``ConsumerConnector.metrics`` return snapshots, which are the dataclasses of this
package.
"""

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
