"""Remembers which versions of requests old brokers support. A client cannot ask brokers before Kafka 0.10 for
these versions."""

import time
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from pyklient.net.connection.transport import Endpoint
from pyklient.protocol.messages import ApiVersionsRequest

__all__ = ["OldBrokers", "Versions"]

Versions: TypeAlias = Mapping[int, tuple[int, int]]
"""The first and the last version of each request that a broker supports, by API key."""

_VALID_FOR: Final = 600.0
"""The number of seconds after which a broker is probed again, because it may have been upgraded."""


class OldBrokers:
    """The versions of requests that old brokers (before Kafka 0.10) support, by the address of the broker.
    Safe to use from several threads.

    A client stores these versions, so that it probes each broker only once. This matters because Kafka 0.9
    may drop requests of other clients when it gets ApiVersions.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._found: dict[str, tuple[Versions, float]] = {}

    def versions_of(self, endpoint: Endpoint) -> Versions | None:
        """Return the versions of the broker at *endpoint*; None if they are not known, or may have
        changed."""
        versions, found_at = self._found.get(endpoint.address, (None, 0.0))
        return versions if self._clock() - found_at < _VALID_FOR else None

    def remember(self, endpoint: Endpoint, versions: Versions) -> None:
        """Store *versions* for the broker at *endpoint* if they are the versions of an old broker."""
        if ApiVersionsRequest.api_key not in versions:
            self._found[endpoint.address] = versions, self._clock()

    def forget(self, endpoint: Endpoint) -> None:
        """Drop the versions of a broker that could not be reached, because it may run another release when it
        comes back."""
        self._found.pop(endpoint.address, None)
