"""A collector of OpenTelemetry: an HTTP server that decodes the metrics and spans which an exporter sends."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

__all__ = ["Collector", "Point", "collecting"]

Attributes = frozenset[tuple[str, Any]]


class Point(NamedTuple):
    """A value of a metric, and whether the metric is a sum that never falls."""

    value: float
    monotonic: bool


class Collector:
    """The data that has arrived: the newest value of each metric by name and attributes, and all spans."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.metrics: dict[str, dict[Attributes, Point]] = {}
        self.units: dict[str, str] = {}
        self.spans: list[Any] = []

    def values(self, name: str, *keys: str) -> dict[Any, float]:
        """Return the values of a metric by its attributes *keys*, summed over all others."""
        found: dict[Any, float] = {}
        for attributes, point in self.metrics.get(name, {}).items():
            known = dict(attributes)
            key = tuple(known.get(each) for each in keys)
            found[key] = found.get(key, 0) + point.value
        return found

    def add_metrics(self, body: bytes) -> None:
        request = ExportMetricsServiceRequest.FromString(body)
        for scope in (scope for resource in request.resource_metrics for scope in resource.scope_metrics):
            for metric in scope.metrics:
                self.units[metric.name] = metric.unit
                kind = metric.WhichOneof("data")
                data = getattr(metric, kind)
                for point in data.data_points:
                    value = point.count if kind == "histogram" else getattr(point, point.WhichOneof("value"))
                    monotonic = kind == "sum" and data.is_monotonic
                    found = self.metrics.setdefault(metric.name, {})
                    found[_attributes(point.attributes)] = Point(value, monotonic)

    def add_spans(self, body: bytes) -> None:
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                self.spans.extend(scope.spans)


def _attributes(pairs: Any) -> Attributes:
    return frozenset((pair.key, getattr(pair.value, pair.value.WhichOneof("value"))) for pair in pairs)


def attributes_of(span: Any) -> dict[str, Any]:
    """Return the attributes of a span."""
    return dict(_attributes(span.attributes))


@contextmanager
def collecting() -> Iterator[Collector]:
    """Run a collector in a thread."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            if self.path == "/v1/metrics":
                collector.add_metrics(body)
                answer = ExportMetricsServiceResponse().SerializeToString()
            else:
                collector.add_spans(body)
                answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Type", "application/x-protobuf")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector = Collector(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join(30)
