"""Numbers sent all the time by librdkafka, so that what is counted does not depend on pyklient's producer."""

import threading

from confluent_kafka import Message, Producer

__all__ = ["Feed"]

_PATIENCE = 120.0
_EVERY = 0.05


class Feed:
    """Sends 0, 1, 2, … to *topic*, *rate* of them a second, from a thread of its own."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, rate: int) -> None:
        self._topic, self._partitions, self._step = topic, partitions, max(1, round(rate * _EVERY))
        options: dict[str, str | int | bool] = {
            "bootstrap.servers": bootstrap,
            "delivery.timeout.ms": int(_PATIENCE * 1000),
            "enable.idempotence": True,
            "linger.ms": 5,
            "log_level": 0,
            # A killed broker knows only the last batch of each producer, and could store earlier ones again.
            "max.in.flight.requests.per.connection": 1,
            "reconnect.backoff.max.ms": 500,
        }
        self._producer = Producer(options)
        self._sent = 0
        self._failed: list[object] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="feed")
        self._thread.start()

    def finish(self) -> int:
        """Stop, and return how many numbers were sent. All of them are stored."""
        self._ended.set()
        self._thread.join()
        assert self._producer.flush(_PATIENCE) == 0
        assert not self._failed, self._failed[:3]
        return self._sent

    def _run(self) -> None:
        while not self._ended.wait(_EVERY):
            for number in range(self._sent, self._sent + self._step):
                self._producer.produce(
                    self._topic, b"%d" % number, partition=number % self._partitions, on_delivery=self._note
                )
            self._sent += self._step
            self._producer.poll(0)

    def _note(self, error: object, _: Message) -> None:
        if error is not None:
            self._failed.append(error)
