"""Limits on what is in flight: sent to a broker, and not answered yet."""

from typing import Final, NamedTuple

__all__ = ["InFlightLimits", "in_flight_limits"]

_BATCHES_REMEMBERED: Final = 5
"""The number of latest batches of a producer that a broker remembers for each partition, to recognize a batch
that is sent again. A batch must stay among them until it is confirmed, even if later batches are confirmed
before it."""


class InFlightLimits(NamedTuple):
    """The numbers of requests and batches that may be in flight at the same time."""

    requests: int
    """The number of requests to one broker."""
    batches: int
    """With idempotence, the number of batches of one partition, counted from the oldest batch in flight.
    Without idempotence, only ``requests`` is a limit."""
    first_batches: int = 1
    """The limit ``batches`` before the broker has stored a batch of the sequence. A broker accepts any
    sequence number from a producer that it does not know: if it rejected the first batch because the
    partition is not ready yet, it would store the second one in its place."""


def in_flight_limits(max_requests: int) -> InFlightLimits:
    """Return the limits for ``max_in_flight_requests_per_connection``."""
    return InFlightLimits(max_requests, min(_BATCHES_REMEMBERED, max_requests))
