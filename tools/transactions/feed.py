"""A thread that sends messages to the first topic of a chain, at a constant rate."""

import threading
from collections import Counter
from typing import Final

from pyklient import KafkaError, Producer

__all__ = ["Feed"]

_KEYS: Final = 40
_INTERVAL: Final = 0.1
_PATIENCE: Final = 120.0


class Feed:
    """Sends *rate* messages per second to *topic*. The values of each key are 0, 1, 2, …, and so on."""

    def __init__(self, bootstrap: str, topic: str, rate: int) -> None:
        self.sent: Counter[int] = Counter()
        """The number of messages of each key."""
        self._topic, self._rate = topic, rate
        self._producer = Producer(bootstrap, delivery_timeout_ms=120_000, max_block_ms=60_000)
        self._error: KafkaError | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._stopping.wait(_INTERVAL):
                self._send(int(self._rate * _INTERVAL))
        except KafkaError as error:
            self._error = error

    def stop(self, messages: int) -> None:
        """Send as many messages as *messages* needs in all, and stop. Raises the error of a message that
        could not be sent."""
        self._end()
        if self._error is not None:
            raise self._error
        self._send(messages - self.sent.total())
        self._producer.flush(timeout=_PATIENCE)

    def close(self) -> None:
        """End the thread, and close the producer."""
        self._end()
        self._producer.close()

    def _end(self) -> None:
        self._stopping.set()
        self._thread.join(_PATIENCE)

    def _send(self, messages: int) -> None:
        first = self.sent.total()
        for number in range(first, first + messages):
            key = number % _KEYS
            self._producer.send(self._topic, b"%d" % self.sent[key], key=b"key-%d" % key)
            self.sent[key] += 1
