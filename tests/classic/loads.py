"""Loads of asynchronous classic producers, and what became of their messages."""

import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyklient
from pyklient import CallbackHandler, ClassicProducer, KeyedMessage
from pyklient.errors import QueueFullError

__all__ = ["Dropped", "FullSpeed", "accepts", "stored"]


class Dropped(CallbackHandler):
    """Collects the values that a producer drops."""

    def __init__(self) -> None:
        self.values: list[bytes] = []

    def on_dropped(self, items: Sequence[Any], error: BaseException) -> None:
        self.values += [item.message for item in items]


def stored(bootstrap: str, topic: str) -> Counter[bytes]:
    """Return the values in *topic*, and how many times each is stored."""
    return Counter(message.value or b"" for message in pyklient.read(bootstrap, topic))


def accepts(producer: ClassicProducer, message: KeyedMessage) -> bool:
    """Send *message*. Return False if the queue is full."""
    try:
        producer.send(message)
    except QueueFullError:
        return False
    return True


class FullSpeed:
    """A thread that sends numbers to one partition of *topic* as fast as *producer* takes them, until
    ``stop``."""

    def __init__(self, producer: ClassicProducer, topic: str, dropped: Dropped) -> None:
        self.accepted = self.full = 0
        """The number of messages that were accepted, and of QueueFullErrors."""
        self.dropped = dropped
        self.topic = topic
        self.producer = producer
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Send no more messages. A call of ``send`` that waits for space must get it now."""
        self._ends.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def in_order(self, bootstrap: str) -> list[bytes]:
        """Return what is stored, each value where it was stored first."""
        return list(dict.fromkeys(message.value or b"" for message in pyklient.read(bootstrap, self.topic)))

    def _run(self) -> None:
        while not self._ends.is_set():
            if accepts(self.producer, KeyedMessage(self.topic, b"%d" % self.accepted, key=b"key")):
                self.accepted += 1
            else:
                self.full += 1
