"""How many messages handlers in parallel handle per second, with one worker and with several."""

import threading
import time
from collections.abc import Callable
from functools import partial

from pyklient import Admin, ConsumerConnector, Message, Producer

__all__ = ["measure"]

_MESSAGES, _KEYS, _PARTITIONS = 4_000, 400, 4
_WAIT = 0.005
_WORKERS = (1, 2, 4, 8, 16)


def wait(seconds: float, message: Message) -> None:
    """Do what a handler does that waits for another service."""
    time.sleep(seconds)


def measure(bootstrap: str, *, say: Callable[[str], object]) -> None:
    """Handle messages with several numbers of workers, and tell the rates."""
    with Admin(bootstrap) as admin:
        admin.create_topic("speed", partitions=_PARTITIONS)
    with Producer(bootstrap) as producer:
        keys = [b"key-%d" % (number % _KEYS) for number in range(_MESSAGES)]
        producer.send_many("speed", [bytes(100)] * _MESSAGES, keys=keys).result(60)
    one = 0.0
    for seconds, name in ((_WAIT, "handlers that sleep 5 ms"), (0.0, "handlers that do nothing")):
        for workers in _WORKERS:
            rate = _rate(bootstrap, workers, partial(wait, seconds))
            one = rate if workers == 1 else one
            say(f"{name}, {workers:2} workers: {rate:8.0f} messages/s, {rate / one:5.2f} times one worker")


def _rate(bootstrap: str, workers: int, handler: Callable[[Message], None]) -> float:
    """Return the messages per second, from the first message that is done to the last one. One worker handles
    a quarter of the messages."""
    wanted = _MESSAGES // 4 if workers == 1 else _MESSAGES
    times: list[float] = []
    lock = threading.Lock()

    def call(message: Message) -> None:
        handler(message)
        with lock:
            times.append(time.perf_counter())
            if len(times) == wanted:
                consumer.stop()

    with ConsumerConnector(bootstrap, auto_offset_reset="earliest") as connector:
        consumer = connector.parallel("speed", call, workers=workers)
        consumer.run()
    return (wanted - 1) / (times[wanted - 1] - times[0])
