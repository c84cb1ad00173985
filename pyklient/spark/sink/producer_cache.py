"""A cache of producers, which stay open from one task to the next in a Python worker.

Spark runs one task after another in the same Python worker, and pickles the functions for each task again.
Only the global variables of a module survive from task to task. Therefore the producers that no task is using
are stored in a global variable of this module.
"""

import atexit
import logging
import os
from collections import deque
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from pyklient.errors import DeliveryError, KafkaError
from pyklient.kernel import Delivery
from pyklient.producer.bulk_delivery import BulkDelivery
from pyklient.producer.producer import Producer

__all__ = ["UnconfirmedDeliveries", "borrowed_producer", "close_idle", "idle_count"]

log = logging.getLogger("pyklient.spark")

MAX_IDLE: Final = 4
"""The number of unused producers that stay open. If there are more, the one that was unused for the longest
time is closed. A few suffice: a worker process runs one task at a time, and a job has few configurations."""

_CLOSE_TIMEOUT: Final = 5.0

_idle: dict[Hashable, Producer] = {}


@contextmanager
def borrowed_producer(options: Mapping[str, Any], token: Hashable = None) -> Iterator[Producer]:
    """Lend a Producer with *options* to the ``with`` block, and flush it at the end of the block.

    Raises DeliveryError if records could not be delivered. If the block or the flush raises an error, the
    producer is closed at once, without sending its remaining records. Otherwise it stays open for the next
    caller with the same *options*. *token* is compared in place of functions and similar options. These
    cannot be compared, because unpickling creates new objects each time.
    """
    key = _key(options, token)
    # Each of these calls is atomic: threads that borrow and return producers need no lock.
    producer = _idle.pop(key, None) or Producer(**options)
    try:
        yield producer
        producer.flush()
    except BaseException:
        _close(producer, 0)
        raise
    if _idle.setdefault(key, producer) is not producer:
        _close(producer, _CLOSE_TIMEOUT)
    while len(_idle) > MAX_IDLE:
        _close_one()


class UnconfirmedDeliveries:
    """The deliveries of a task in the order in which they were sent. With this object, a task fails soon
    after one of its deliveries has failed, even if the task has not sent all its records yet.

    If records are sent in groups, it is enough to add the last delivery of each group: ``borrowed_producer``
    raises the errors of the other deliveries at the end of the task.
    """

    def __init__(self) -> None:
        self._waiting: deque[Delivery | BulkDelivery] = deque()

    def add(self, delivery: Delivery | BulkDelivery) -> None:
        """Add *delivery*. Raises DeliveryError if a delivery that was added before has failed."""
        self._waiting.append(delivery)
        while self._waiting and self._waiting[0].done():
            error = self._waiting.popleft().exception()
            if isinstance(error, DeliveryError):
                raise error
            if error is not None:
                raise DeliveryError(f"a record was not delivered: {error}", 1) from error


def idle_count() -> int:
    """Return the number of open producers that no task is using."""
    return len(_idle)


def close_idle() -> None:
    """Close the producers that no task is using. A later task creates a new producer."""
    while _idle:
        _close_one()


def _close_one() -> None:
    oldest = next(iter(list(_idle)), None)
    producer = _idle.pop(oldest, None)
    if producer is not None:
        _close(producer, _CLOSE_TIMEOUT)


def _close(producer: Producer, timeout: float) -> None:
    try:
        producer.close(timeout)
    except KafkaError as error:
        # Failed deliveries were raised to the task. This error is about the records that were given up.
        log.debug("an error occurred while %r was closed: %s", producer, error)


def _key(options: Mapping[str, Any], token: Hashable) -> Hashable:
    plain = {name: tuple(value) if isinstance(value, list) else value for name, value in options.items()}
    objects = sorted(name for name, value in plain.items() if callable(value) or not _hashable(value))
    others = sorted((name, value) for name, value in plain.items() if name not in objects)
    return (*others, *objects, token if objects else None)


def _hashable(value: Any) -> bool:
    return isinstance(value, str | int | float | tuple | None)


# The threads of the producers do not exist in a forked child.
os.register_at_fork(after_in_child=_idle.clear)
atexit.register(close_idle)
