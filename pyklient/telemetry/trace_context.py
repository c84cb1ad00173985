"""Trace context in the headers of records, as OpenTelemetry's propagators write and read it."""

from collections.abc import Sequence
from typing import TypeAlias

from opentelemetry import propagate
from opentelemetry.context import Context
from opentelemetry.trace import Link, get_current_span

from pyklient.kernel import Message

__all__ = ["Headers", "context_of", "link_to", "with_context"]

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]


def with_context(headers: Headers | None, context: Context) -> list[tuple[str, bytes | None]]:
    """Return *headers* with the trace context *context* added, by default as the header ``traceparent``.
    Replaces the trace context that *headers* had before."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier, context)
    kept = [(name, value) for name, value in headers or () if name not in carrier]
    return [*kept, *((name, text.encode()) for name, text in carrier.items())]


def context_of(message: Message) -> Context:
    """Return the trace context in the headers of *message*. Empty if there is none."""
    carrier = {name: value.decode("utf-8", "replace") for name, value in message.headers if value is not None}
    return propagate.extract(carrier, Context())


def link_to(context: Context) -> list[Link]:
    """Return a list with a link to the span in *context*. Empty if *context* has no span."""
    span = get_current_span(context).get_span_context()
    return [Link(span)] if span.is_valid else []
