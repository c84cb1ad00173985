"""Producers of this process, kept from one task to the next.

Spark runs task after task in the same Python worker, and pickles what they call anew for each of them: only
an importable module's globals stay. Here they are producers that nobody is using at the moment.
"""

import atexit
import logging
import os
from collections import deque
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from pyklient.errors import DeliveryError, KafkaError
from pyklient.producer.bulk_delivery import BulkDelivery
from pyklient.producer.producer import Producer
from pyklient.protocol.records.kernel import Delivery

__all__ = ["Unconfirmed", "borrowed", "close_idle", "idle"]

log = logging.getLogger("pyklient.spark")

MOST_IDLE: Final = 4
"""Producers kept; the one longest unused goes first. A worker process has one task at a time, and a job few
configurations."""

_CLOSING: Final = 5.0

_idle: dict[Hashable, Producer] = {}


@contextmanager
def borrowed(options: Mapping[str, Any], token: Hashable = None) -> Iterator[Producer]:
    """A Producer with *options* that is nobody else's for the time of the ``with`` block, which ends when
    every record sent in it is confirmed.

    Raises DeliveryError where some could not be delivered. A producer that anything was raised over is closed
    at once, with what it had not sent yet; otherwise it is kept for the next who asks for the same *options*.
    *token* stands for those of them that cannot be compared, such as functions, which are not the same object
    once pickled.
    """
    key = _key(options, token)
    # One step each: threads that take and give back need no lock.
    producer = _idle.pop(key, None) or Producer(**options)
    try:
        yield producer
        producer.flush()
    except BaseException:
        _close(producer, 0)
        raise
    if _idle.setdefault(key, producer) is not producer:
        _close(producer, _CLOSING)
    while len(_idle) > MOST_IDLE:
        _close_one()


class Unconfirmed:
    """Deliveries under way, in the order in which they were sent, so that a task fails when its records begin
    to, and not when all of them have been sent. ``borrowed`` has the last word: this may know but the last
    record of many."""

    def __init__(self) -> None:
        self._waiting: deque[Delivery | BulkDelivery] = deque()

    def add(self, delivery: Delivery | BulkDelivery) -> None:
        """One more. Raises DeliveryError where one of those before has failed."""
        self._waiting.append(delivery)
        while self._waiting and self._waiting[0].done():
            error = self._waiting.popleft().exception()
            if isinstance(error, DeliveryError):
                raise error
            if error is not None:
                raise DeliveryError(f"a record was not delivered: {error}", 1) from error


def idle() -> int:
    """How many producers are kept at the moment."""
    return len(_idle)


def close_idle() -> None:
    """Close the producers that nobody is using; others are made when they are needed."""
    while _idle:
        _close_one()


def _close_one() -> None:
    oldest = next(iter(list(_idle)), None)
    producer = _idle.pop(oldest, None)
    if producer is not None:
        _close(producer, _CLOSING)


def _close(producer: Producer, timeout: float) -> None:
    try:
        producer.close(timeout)
    except KafkaError as error:
        # What could not be delivered has been raised where it was sent; this is about what was given up.
        log.debug("closing %r: %s", producer, error)


def _key(options: Mapping[str, Any], token: Hashable) -> Hashable:
    plain = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
    objects = sorted(name for name, value in plain.items() if callable(value) or not _hashable(value))
    rest = sorted((name, value) for name, value in plain.items() if name not in objects)
    return (*rest, *objects, token if objects else None)


def _hashable(value: Any) -> bool:
    return isinstance(value, str | int | float | tuple | None)


# A child has none of the threads of its parent's producers.
os.register_at_fork(after_in_child=_idle.clear)
atexit.register(close_idle)
