"""Counts the requests to one broker: how many, how large, how long their responses took, and their errors.

A connection holds its lock while it counts. There is one Traffic for each broker and purpose, because a
broker has at most one connection for each purpose. A Traffic outlives its connections.
"""

from collections.abc import Iterable
from typing import Any

from pyklient import metrics
from pyklient.metrics.counters import DurationHistogram, add_errors, count_error

__all__ = ["Traffic", "by_broker"]


class _Requests:
    """The counts of the requests of one kind, such as ``Produce``."""

    __slots__ = ("answered", "bytes_received", "bytes_sent", "failed", "latency", "name", "sent")

    def __init__(self, name: str) -> None:
        self.name = name
        self.sent = 0
        self.answered = 0
        self.failed = 0
        self.bytes_sent = 0
        self.bytes_received = 0
        self.latency = DurationHistogram()


class Traffic:
    """Counts the requests that one client sends to the broker *node_id* for one purpose, such as fetching or
    group coordination, over all its connections for this purpose."""

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id
        self.address = ""
        """The address (host and port) to which the client last tried to connect."""
        self.connections = 0
        """The number of connections that were opened."""
        self.failed_connections = 0
        self.throttle_time = 0.0
        self.errors: dict[str, int] = {}
        self.requests: dict[type, _Requests] = {}

    def sent(self, request_class: type, size: int) -> None:
        """Count a request of *size* bytes."""
        requests = self.requests.get(request_class)
        if requests is None:
            name = request_class.__name__.removesuffix("Request")
            requests = self.requests[request_class] = _Requests(name)
        requests.sent += 1
        requests.bytes_sent += size

    def answered(self, request_class: type, response: Any, size: int, seconds: float, now: float) -> None:
        """Count the response to a request: *size* bytes, *seconds* after the request was sent."""
        requests = self.requests[request_class]
        requests.answered += 1
        requests.bytes_received += size
        requests.latency.add(seconds, now)
        if throttle_time_ms := getattr(response, "throttle_time_ms", 0):
            self.throttle_time += throttle_time_ms / 1000
        if code := getattr(response, "error_code", 0):
            count_error(self.errors, code)

    def failed(self, request_class: type) -> None:
        """Count a request that gets no response."""
        self.requests[request_class].failed += 1


def by_broker(traffic: Iterable[Traffic], now: float) -> "dict[int, metrics.BrokerMetrics]":
    """Return the metrics of each broker by node id. *traffic* may have several items for one broker."""
    nodes: dict[int, list[Traffic]] = {}
    for each in traffic:
        nodes.setdefault(each.node_id, []).append(each)
    return {node_id: _broker(parts, now) for node_id, parts in sorted(nodes.items())}


def _broker(parts: list[Traffic], now: float) -> "metrics.BrokerMetrics":
    kinds: dict[str, list[_Requests]] = {}
    for part in parts:
        for requests in list(part.requests.values()):
            kinds.setdefault(requests.name, []).append(requests)
    return metrics.BrokerMetrics(
        address=parts[-1].address,
        connections=sum(part.connections for part in parts),
        failed_connections=sum(part.failed_connections for part in parts),
        requests={name: _requests(kind, now) for name, kind in sorted(kinds.items())},
        errors=add_errors(part.errors for part in parts),
        throttle_time=sum(part.throttle_time for part in parts),
    )


def _requests(kind: list[_Requests], now: float) -> "metrics.RequestMetrics":
    return metrics.RequestMetrics(
        sent=sum(each.sent for each in kind),
        answered=sum(each.answered for each in kind),
        failed=sum(each.failed for each in kind),
        bytes_sent=sum(each.bytes_sent for each in kind),
        bytes_received=sum(each.bytes_received for each in kind),
        latency=DurationHistogram.snapshot([each.latency for each in kind], now),
    )
