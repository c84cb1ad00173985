"""Limits on the requests and batches in flight: sent to a broker, and not answered yet."""

from typing import Final, NamedTuple

__all__ = ["InFlightLimits", "in_flight_limits"]

_BATCHES_REMEMBERED: Final = 5
"""The number of latest batches of a producer that a broker remembers for each partition, to recognize a batch
that is sent again. A batch must be one of them until it is confirmed, even if later batches are confirmed
before it."""


class InFlightLimits(NamedTuple):
    """The numbers of requests and batches that may be in flight at the same time."""

    requests: int
    """The number of requests to one broker that may be in flight."""
    batches: int
    """With idempotence, the number of batches of one partition that may be in flight, counted from the oldest
    one. Without idempotence, only ``requests`` is a limit."""
    first_batches: int = 1
    """The limit used instead of ``batches`` until the broker has stored a batch of the sequence. A broker
    accepts any sequence number from a producer that it does not know. If it rejected the first batch because
    the partition is not ready yet, it would store the second batch in place of the first."""


def in_flight_limits(max_requests: int) -> InFlightLimits:
    """Return the limits for *max_requests*, the value of the option
    ``max_in_flight_requests_per_connection``."""
    return InFlightLimits(max_requests, min(_BATCHES_REMEMBERED, max_requests))
