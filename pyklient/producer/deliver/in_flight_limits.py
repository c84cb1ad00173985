"""Limits on the requests and batches in flight: sent to a broker, and not answered yet."""

from typing import Final, NamedTuple

__all__ = ["InFlightLimits", "in_flight_limits"]

_BATCHES_REMEMBERED: Final = 5
"""The number of batches of a producer that a broker remembers for each partition, to recognize a batch that
is sent again. These are the latest batches. Therefore a batch must be confirmed before the producer sends the
fifth batch after it."""


class InFlightLimits(NamedTuple):
    """The numbers of requests and batches that may be in flight at the same time."""

    requests: int
    """The number of requests to one broker that may be in flight."""
    batches: int
    """With idempotence, the number of batches of one partition that may be in flight. Every batch from the
    oldest in flight to the newest counts, even if it is confirmed. Without idempotence, only ``requests`` is
    a limit."""
    first_batches: int = 1
    """The limit used instead of ``batches`` until the broker has stored the first batch of the producer.
    Until then, the broker accepts any sequence number. If the broker rejected the first batch because the
    partition is not ready yet, it would store the second batch in place of the first."""


def in_flight_limits(max_requests: int) -> InFlightLimits:
    """Return the limits for *max_requests*, the value of the option
    ``max_in_flight_requests_per_connection``."""
    return InFlightLimits(max_requests, min(_BATCHES_REMEMBERED, max_requests))
