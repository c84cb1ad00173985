"""Telemetry, the object with which a program gives the metrics and traces of its clients to OpenTelemetry."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from opentelemetry import metrics, trace
from opentelemetry.trace import Span, SpanKind, Status, StatusCode

from pyklient.consumer.consumer_connector import ConsumerConnector
from pyklient.errors import BrokerError
from pyklient.kernel import Delivery, Message
from pyklient.producer.producer import Producer
from pyklient.telemetry.attributes import (
    BATCH_MESSAGE_COUNT,
    CONSUMER_GROUP,
    DESTINATION,
    ERROR_TYPE,
    KAFKA,
    KEY,
    OFFSET,
    OPERATION,
    OPERATION_TYPE,
    PARTITION,
    SYSTEM,
    TOMBSTONE,
)
from pyklient.telemetry.observed_clients import ObservedClients
from pyklient.telemetry.trace_context import Headers, context_of, link_to, with_context
from pyklient.version import VERSION

__all__ = ["Telemetry"]


class Telemetry:
    """Gives the metrics of clients to OpenTelemetry, and makes spans for records that are sent and processed.

    A program usually has one Telemetry. Without *meter_provider* and *tracer_provider*, it uses the global
    providers, which the program or ``opentelemetry-instrument`` sets. If no provider is set, it does nothing.

    ::

        telemetry = Telemetry()
        telemetry.observe(producer, connector)
        telemetry.send(producer, "orders", b"…")
        for message in connector.stream("orders"):
            with telemetry.processing(message):
                handle(message)
    """

    def __init__(
        self,
        meter_provider: metrics.MeterProvider | None = None,
        tracer_provider: trace.TracerProvider | None = None,
    ) -> None:
        meter = metrics.get_meter("pyklient", VERSION, meter_provider)
        self._tracer = trace.get_tracer("pyklient", VERSION, tracer_provider)
        self._clients = ObservedClients(meter)
        self._sending = meter.create_histogram(
            "messaging.client.operation.duration", "s", "Time until records were delivered or had failed"
        )
        self._processing = meter.create_histogram(
            "messaging.process.duration", "s", "Time for which messages were processed"
        )

    def observe(self, *clients: Producer | ConsumerConnector) -> None:
        """Give the metrics of *clients* to OpenTelemetry whenever it collects metrics.

        A closed client still reports its totals. A client that was garbage-collected is left out.
        """
        for client in clients:
            if not isinstance(client, Producer | ConsumerConnector):
                raise TypeError(f"only a Producer or a ConsumerConnector has metrics, not {client!r}")
            self._clients.add(client)

    def send(
        self,
        producer: Producer,
        topic: str,
        value: Any,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers | None = None,
        on_delivery: Callable[[Delivery], object] | None = None,
    ) -> Delivery:
        """Send a record as ``producer.send`` does, within a span that lasts until the record is delivered.

        The headers of the record get the context of the span, so that the consumer's span belongs to the same
        trace. Arguments, result and errors are those of ``producer.send``.
        """
        attributes, began = _sending(topic, key, value), time.monotonic()
        span = self._tracer.start_span(f"send {topic}", kind=SpanKind.PRODUCER, attributes=attributes)

        def end(delivery: Delivery) -> None:
            try:
                error = _end_sending(span, delivery)
                _count(self._sending, began, {**attributes, PARTITION: str(delivery.partition)}, error)
            finally:
                if on_delivery is not None:
                    on_delivery(delivery)

        try:
            carried = with_context(headers, trace.set_span_in_context(span))
            return producer.send(topic, value, key, partition, timestamp_ms, carried, end)
        except BaseException as error:
            _fail(span, error)
            span.end()
            _count(self._sending, began, attributes, error)
            raise

    @contextmanager
    def processing(
        self, messages: Message | Sequence[Message], group_id: str | None = None
    ) -> Iterator[Span]:
        """Return a context manager that makes a span for its ``with`` block, in which the program processes
        one message or a batch of them.

        The span of one message belongs to the trace in which the message was sent. The span of a larger
        batch has links to the spans in which its messages were sent. An exception in the block is recorded.
        *group_id* becomes an attribute of the span.
        """
        batch = [messages] if isinstance(messages, Message) else list(messages)
        attributes = _processing(batch, group_id)
        contexts = [context_of(message) for message in batch]
        links = [link for context in contexts for link in link_to(context)]
        topic = attributes.get(DESTINATION)
        began = time.monotonic()
        try:
            with self._tracer.start_as_current_span(
                "process" if topic is None else f"process {topic}",
                context=contexts[0] if len(batch) == 1 and links else None,
                kind=SpanKind.CONSUMER,
                attributes=attributes,
                links=links,
            ) as span:
                yield span
        except BaseException as error:
            _count(self._processing, began, attributes, error)
            raise
        _count(self._processing, began, attributes, None)


def _count(
    histogram: metrics.Histogram, began: float, attributes: dict[str, Any], error: BaseException | None
) -> None:
    """Record the duration of an operation that began at the time *began*, and its *error* if it has failed.
    Those of *attributes* that may have many different values are not recorded."""
    few = (SYSTEM, OPERATION, OPERATION_TYPE, DESTINATION, PARTITION, CONSUMER_GROUP)
    counted = {name: attributes[name] for name in few if name in attributes}
    if error is not None:
        counted[ERROR_TYPE] = _error_type(error)
    histogram.record(time.monotonic() - began, counted)


def _sending(topic: str, key: Any, value: Any) -> dict[str, Any]:
    attributes = {SYSTEM: KAFKA, OPERATION: "send", OPERATION_TYPE: "send", DESTINATION: topic}
    return attributes | _of_record(key, value)


def _processing(batch: Sequence[Message], group_id: str | None) -> dict[str, Any]:
    """Return the attributes of the span in which *batch* is processed. The topic and the partition are
    included only if they are the same for all messages."""
    attributes: dict[str, Any] = {SYSTEM: KAFKA, OPERATION: "process", OPERATION_TYPE: "process"}
    if group_id is not None:
        attributes[CONSUMER_GROUP] = group_id
    topics = {message.topic for message in batch}
    partitions = {(message.topic, message.partition) for message in batch}
    if len(topics) == 1:
        attributes[DESTINATION] = batch[0].topic
    if len(partitions) == 1:
        attributes[PARTITION] = str(batch[0].partition)
    if len(batch) == 1:
        attributes[OFFSET] = batch[0].offset
        return attributes | _of_record(batch[0].key, batch[0].value)
    attributes[BATCH_MESSAGE_COUNT] = len(batch)
    return attributes


def _of_record(key: Any, value: Any) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    if key is not None:
        attributes[KEY] = key.decode("utf-8", "backslashreplace") if isinstance(key, bytes) else str(key)
    if value is None:
        attributes[TOMBSTONE] = True
    return attributes


def _end_sending(span: Span, delivery: Delivery) -> BaseException | None:
    """End *span*, because its record was delivered or its delivery has failed. Return the error of a failed
    delivery."""
    span.set_attribute(PARTITION, str(delivery.partition))
    error = delivery.exception(0)
    if error is not None:
        _fail(span, error)
    elif (offset := delivery.result(0).offset) >= 0:
        span.set_attribute(OFFSET, offset)
    span.end()
    return error


def _fail(span: Span, error: BaseException) -> None:
    span.set_attribute(ERROR_TYPE, _error_type(error))
    span.set_status(Status(StatusCode.ERROR, str(error)))


def _error_type(error: BaseException) -> str:
    """Return the name of the error code, or the name of the class if *error* has no code."""
    return error.name if isinstance(error, BrokerError) else type(error).__qualname__
