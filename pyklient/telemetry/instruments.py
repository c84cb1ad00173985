"""The table of instruments: which values of a client's metrics OpenTelemetry gets, and under which names.

The names that begin with ``messaging.`` are those of OpenTelemetry's semantic conventions. Each instrument
has a function that returns its values in a snapshot of the metrics.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

from pyklient.metrics import (
    BrokerMetrics,
    ConsumedPartition,
    ConsumerMetrics,
    Durations,
    ProducedPartition,
    ProducerMetrics,
    RequestMetrics,
)
from pyklient.telemetry.attributes import (
    CLIENT_ID,
    CONSUMER_GROUP,
    DESTINATION,
    ERROR_TYPE,
    KAFKA,
    OPERATION,
    PARTITION,
    QUANTILE,
    REQUEST,
    SERVER_ADDRESS,
    SERVER_PORT,
    SYSTEM,
)

__all__ = ["CONSUMER", "PRODUCER", "Instrument", "Value"]

Attributes: TypeAlias = dict[str, str | int | float]
Value: TypeAlias = tuple[float, Attributes]
"""A value of an instrument, and the attributes of the value."""


class Instrument(NamedTuple):
    """One instrument: its name, unit and description, and a function that returns the values of the
    instrument in a snapshot of a client's metrics."""

    name: str
    unit: str
    description: str
    values: Callable[..., Iterable[Value]]
    is_total: bool = True
    """True if the values are totals, which never fall."""


def _client(found: ProducerMetrics | ConsumerMetrics) -> Attributes:
    common: Attributes = {SYSTEM: KAFKA, CLIENT_ID: found.client_id}
    if isinstance(found, ConsumerMetrics) and found.group_id is not None:
        common[CONSUMER_GROUP] = found.group_id
    return common


def _produced(
    pick: Callable[[ProducedPartition], float],
) -> Callable[[ProducerMetrics], Iterator[Value]]:
    """Return a function that yields, for each partition in a producer's snapshot, the number that *pick*
    returns for it, and its attributes."""

    def values(found: ProducerMetrics) -> Iterator[Value]:
        for at, partition in found.partitions.items():
            where = {OPERATION: "send", DESTINATION: at.topic, PARTITION: str(at.partition)}
            yield pick(partition), {**_client(found), **where}

    return values


def _sent(found: ProducerMetrics) -> Iterator[Value]:
    """Yield the number of delivered records of each partition, and the number of failed records if there are
    any."""
    yield from _produced(lambda partition: partition.delivered.records)(found)
    for failed, attributes in _produced(lambda partition: partition.failed_records)(found):
        if failed:
            yield failed, {**attributes, ERROR_TYPE: "_OTHER"}


def _consumed(
    pick: Callable[[ConsumedPartition], float | None],
) -> Callable[[ConsumerMetrics], Iterator[Value]]:
    """Return a function that yields, for each partition in a consumer's snapshot, the number that *pick*
    returns for it, and its attributes. A partition for which *pick* returns None is left out."""

    def values(found: ConsumerMetrics) -> Iterator[Value]:
        for at, partition in found.partitions.items():
            if (value := pick(partition)) is not None:
                yield value, {**_client(found), DESTINATION: at.topic, PARTITION: str(at.partition)}

    return values


def _single(
    pick: Callable[..., float | None],
) -> Callable[[ProducerMetrics | ConsumerMetrics], Iterator[Value]]:
    """Return a function that yields the result of *pick* for a client's snapshot, with the attributes of the
    client. *pick* gets one number from the snapshot. If it returns None, nothing is yielded."""

    def values(found: ProducerMetrics | ConsumerMetrics) -> Iterator[Value]:
        if (value := pick(found)) is not None:
            yield value, _client(found)

    return values


def _sums(values: Iterable[Value]) -> Iterator[Value]:
    """Yield one sum for all *values* with the same attributes, because OpenTelemetry would keep only one of
    them.

    A snapshot has two entries for a bootstrap server: one under the node id that it has in the cluster, and
    one under the number that it had before the client knew this id.
    """
    sums: dict[frozenset[tuple[str, str | int | float]], tuple[float, Attributes]] = {}
    for value, attributes in values:
        key = frozenset(attributes.items())
        before, _ = sums.get(key, (0.0, attributes))
        sums[key] = before + value, attributes
    yield from sums.values()


def _errors(found: ProducerMetrics | ConsumerMetrics) -> Iterator[Value]:
    """Yield the number of error responses for each name of an error. The errors of partitions come first. The
    errors of whole requests follow, broker by broker."""
    for name, times in found.errors.items():
        yield times, {**_client(found), ERROR_TYPE: name}
    yield from _sums(
        (times, {**_client(found), **_server(broker), ERROR_TYPE: name})
        for broker in found.brokers.values()
        for name, times in broker.errors.items()
    )


def _quantiles(durations: Durations, attributes: Attributes) -> Iterator[Value]:
    for quantile, value in ((0.5, durations.p50), (0.99, durations.p99), (1.0, durations.max)):
        if value is not None:
            yield value, {**attributes, QUANTILE: quantile}


def _duration(
    pick: Callable[..., Durations],
) -> Callable[[ProducerMetrics | ConsumerMetrics], Iterator[Value]]:
    """Return a function that yields quantiles of durations. *pick* gets the durations from a client's
    snapshot."""
    return lambda found: _quantiles(pick(found), _client(found))


def _latencies(found: ProducerMetrics | ConsumerMetrics) -> Iterator[Value]:
    """Yield the quantiles of the latencies for each broker and each kind of request. If a snapshot has two
    brokers with the same address, use the one with more requests, because quantiles cannot be added up."""
    most: dict[tuple[str, str], tuple[BrokerMetrics, RequestMetrics]] = {}
    for broker in found.brokers.values():
        for name, requests in broker.requests.items():
            before = most.get((broker.address, name))
            if before is None or before[1].sent < requests.sent:
                most[broker.address, name] = broker, requests
    for (_, name), (broker, requests) in most.items():
        yield from _quantiles(requests.latency, {**_client(found), **_server(broker), REQUEST: name})


def _requests(
    pick: Callable[[RequestMetrics], float],
) -> Callable[[ProducerMetrics | ConsumerMetrics], Iterator[Value]]:
    """Return a function that yields the result of *pick* for each kind of request to each broker, with the
    attributes of the broker and the request."""

    def values(found: ProducerMetrics | ConsumerMetrics) -> Iterator[Value]:
        yield from _sums(
            (pick(requests), {**_client(found), **_server(broker), REQUEST: name})
            for broker in found.brokers.values()
            for name, requests in broker.requests.items()
        )

    return values


def _server(broker: BrokerMetrics) -> Attributes:
    host, _, port = broker.address.rpartition(":")
    return {SERVER_ADDRESS: host.strip("[]"), SERVER_PORT: int(port)}


_BOTH: Final = (
    Instrument("pyklient.errors", "{response}", "Error responses, by the name of the error code", _errors),
    Instrument(
        "pyklient.requests", "{request}", "Requests that were sent", _requests(lambda each: each.sent)
    ),
    Instrument(
        "pyklient.requests.failed",
        "{request}",
        "Requests that got no response",
        _requests(lambda each: each.failed),
    ),
    Instrument("pyklient.sent.bytes", "By", "Bytes of requests", _requests(lambda each: each.bytes_sent)),
    Instrument(
        "pyklient.received.bytes", "By", "Bytes of responses", _requests(lambda each: each.bytes_received)
    ),
    Instrument(
        "pyklient.request.duration",
        "s",
        "Time from a request to its response: quantiles over the last minute",
        _latencies,
        is_total=False,
    ),
    Instrument(
        "pyklient.throttle.time",
        "s",
        "Time for which brokers have asked the client to wait",
        _single(lambda found: found.throttle_time),
    ),
)

PRODUCER: Final = (
    Instrument(
        "messaging.client.sent.messages",
        "{message}",
        "Records that were delivered. With the attribute error.type: records that were not delivered",
        _sent,
    ),
    Instrument(
        "pyklient.producer.bytes",
        "By",
        "Bytes of batches that were delivered",
        _produced(lambda partition: partition.delivered.bytes),
    ),
    Instrument(
        "pyklient.producer.batches",
        "{batch}",
        "Batches that were delivered",
        _produced(lambda partition: partition.delivered.batches),
    ),
    Instrument(
        "pyklient.producer.retries",
        "{batch}",
        "Batches that were sent again",
        _produced(lambda partition: partition.retried_batches),
    ),
    Instrument(
        "pyklient.producer.waiting",
        "{message}",
        "Records that are neither delivered nor failed yet",
        _single(lambda found: found.waiting_records),
        is_total=False,
    ),
    Instrument(
        "pyklient.producer.buffer.used",
        "By",
        "Memory for records that are not delivered yet",
        _single(lambda found: found.buffer_used),
        is_total=False,
    ),
    Instrument(
        "pyklient.producer.batch.fill",
        "1",
        "Mean size of batches before compression, as a fraction of batch_size",
        _single(lambda found: found.batch_fill),
        is_total=False,
    ),
    Instrument(
        "pyklient.producer.queue.duration",
        "s",
        "Time for which batches waited before they were sent: quantiles over the last minute",
        _duration(lambda found: found.queue_time),
        is_total=False,
    ),
    Instrument(
        "pyklient.producer.delivery.duration",
        "s",
        "Time until batches were confirmed: quantiles over the last minute",
        _duration(lambda found: found.delivery_time),
        is_total=False,
    ),
    *_BOTH,
)
"""The instruments for a producer."""

CONSUMER: Final = (
    Instrument(
        "messaging.client.consumed.messages",
        "{message}",
        "Messages that were handed out",
        _consumed(lambda partition: partition.consumed.records),
    ),
    Instrument(
        "pyklient.consumer.bytes",
        "By",
        "Fetched bytes (compressed) of the messages that were handed out",
        _consumed(lambda partition: partition.consumed.bytes),
    ),
    Instrument(
        "pyklient.consumer.fetched.bytes",
        "By",
        "Bytes of records that were fetched",
        _consumed(lambda partition: partition.fetched.bytes),
    ),
    Instrument(
        "pyklient.consumer.lag",
        "{message}",
        "Offsets from the position to the end of the partition",
        _consumed(lambda partition: partition.lag),
        is_total=False,
    ),
    Instrument(
        "pyklient.consumer.position",
        "{offset}",
        "Offset of the next message",
        _consumed(lambda partition: partition.position),
        is_total=False,
    ),
    Instrument(
        "pyklient.consumer.queued.bytes",
        "By",
        "Bytes that were fetched and are not read yet",
        _single(lambda found: found.queued_bytes),
        is_total=False,
    ),
    Instrument(
        "pyklient.consumer.corrupt.batches",
        "{batch}",
        "Batches that were skipped because they cannot be read",
        _consumed(lambda partition: partition.corrupt_batches or None),
    ),
    Instrument(
        "pyklient.consumer.skipped.offsets",
        "{offset}",
        "Offsets in the batches that were skipped because they cannot be read",
        _consumed(lambda partition: partition.skipped_offsets or None),
    ),
    Instrument(
        "pyklient.consumer.assignments",
        "{assignment}",
        "Number of times that partitions were assigned",
        _single(lambda found: found.rebalances.assignments),
    ),
    Instrument(
        "pyklient.consumer.rebalance.time",
        "s",
        "Time that rebalances have taken",
        _single(lambda found: found.rebalances.durations.total),
    ),
    Instrument(
        "pyklient.consumer.commits",
        "{commit}",
        "Commits that have stored offsets",
        _single(lambda found: found.commits.commits),
    ),
    Instrument(
        "pyklient.consumer.commits.failed",
        "{commit}",
        "Commits that have failed",
        _single(lambda found: found.commits.failed),
    ),
    *_BOTH,
)
"""The instruments for a connector."""
