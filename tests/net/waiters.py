"""Tells when a second thread waits for the attempt of another one."""

from collections.abc import Callable, Hashable
from typing import Any

from pyklient.net.single_flight import SingleFlight
from tests.servers.process import wait_until

__all__ = ["wait_for_second"]


def wait_for_second(
    flights: SingleFlight[Any, Any], key: Hashable, has_given_up: Callable[[], bool] = lambda: False
) -> None:
    """Return when a second thread waits for the attempt for *key* that is under way, or when *has_given_up*
    is true."""
    under_way: Any = flights._attempts[key]
    wait_until(
        lambda: bool(under_way._condition._waiters) or has_given_up(), 60, "a second thread that waits", 0.005
    )
