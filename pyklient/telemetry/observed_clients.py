"""The clients that OpenTelemetry observes, and the instruments that read their metrics."""

import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Final, TypeAlias

from opentelemetry.metrics import CallbackOptions, Meter, Observation

from pyklient.consumer.consumer_connector import ConsumerConnector
from pyklient.errors import ForkError
from pyklient.metrics import ConsumerMetrics, ProducerMetrics
from pyklient.producer.producer import Producer
from pyklient.telemetry.instruments import CONSUMER, PRODUCER, Instrument, Value

__all__ = ["Client", "ObservedClients"]

_SAME_TIME: Final = 0.5
"""The number of seconds for which all instruments use the same snapshot, because OpenTelemetry reads them one
after another."""

Client: TypeAlias = Producer | ConsumerConnector


class ObservedClients:
    """The clients whose metrics OpenTelemetry reads through *meter*. A client that was garbage-collected is
    left out."""

    def __init__(self, meter: Meter) -> None:
        self._clients: weakref.WeakSet[Client] = weakref.WeakSet()
        self._snapshots: list[ProducerMetrics | ConsumerMetrics] = []
        self._taken_at = float("-inf")
        by_name: dict[str, list[tuple[type, Instrument]]] = {}
        for kind, instruments in ((ProducerMetrics, PRODUCER), (ConsumerMetrics, CONSUMER)):
            for each in instruments:
                by_name.setdefault(each.name, []).append((kind, each))
        for name, kinds in by_name.items():
            first = kinds[0][1]
            create: Callable[..., object] = (
                meter.create_observable_counter if first.is_total else meter.create_observable_gauge
            )
            create(name, [partial(self._observe, kinds)], unit=first.unit, description=first.description)

    def add(self, client: Client) -> None:
        """Observe *client* from now on."""
        self._clients.add(client)
        self._taken_at = float("-inf")

    def _observe(
        self, kinds: list[tuple[type, Instrument]], options: CallbackOptions
    ) -> Iterator[Observation]:
        for found in self._read():
            for kind, instrument in kinds:
                if isinstance(found, kind):
                    values: Iterator[Value] = iter(instrument.values(found))
                    yield from (Observation(value, attributes) for value, attributes in values)

    def _read(self) -> list[ProducerMetrics | ConsumerMetrics]:
        now = time.monotonic()
        if now - self._taken_at > _SAME_TIME:
            found: list[ProducerMetrics | ConsumerMetrics] = []
            for client in list(self._clients):
                with suppress(ForkError):  # the parent process tells of its clients itself
                    found.append(client.metrics())
            self._snapshots, self._taken_at = found, now
        return self._snapshots
