"""Numbers that come all the time, sent and read by librdkafka, so that what is counted is not ours."""

import threading
import time
from collections.abc import Iterator

from confluent_kafka import Consumer, Message, Producer, TopicPartition

__all__ = ["Feed", "everything"]

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
            # A killed broker knows but the last batch of each producer: those before could be stored again.
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
        """Stop. → how many numbers there are, all of them stored."""
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


def everything(bootstrap: str, topic: str) -> Iterator[Message]:
    """All records that *topic* holds now."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": f"{topic}-check", "log_level": 0})
    try:
        numbers = consumer.list_topics(topic, timeout=30).topics[topic].partitions
        bounds = {
            number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30)
            for number in numbers
        }
        left = {number for number, (first, end) in bounds.items() if end > first}
        consumer.assign([TopicPartition(topic, number, bounds[number][0]) for number in left])
        deadline = time.monotonic() + _PATIENCE
        while left:
            assert time.monotonic() < deadline, f"{topic}: nothing comes of {left}"
            for message in consumer.consume(10_000, timeout=1):
                assert message.error() is None, message.error()
                yield message
                number, offset = message.partition(), message.offset()
                assert number is not None
                assert offset is not None
                if offset + 1 >= bounds[number][1]:
                    left.discard(number)
    finally:
        consumer.close()
