"""A handler that fails one message in a hundred: each message is handled, or is in the dead-letter topic."""

import random
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from pyklient import Admin, Message, Producer, read
from pyklient.consumer.parallel.parallel_consumer import ParallelConsumer
from pyklient.handlers import DeadLetterTopic, RetryingHandler, RetryTopic
from tests.run.seed import seed
from tests.servers.fixtures import NewName, NewTopic
from tests.servers.process import wait_until
from tests.system.reading import connector

pytestmark = [pytest.mark.slow, pytest.mark.brokers(min="4.3")]

_PARTITIONS, _COUNT, _KEYS = 3, 600, 40


class HandlerFailed(Exception):
    """The exception of the handlers in these tests."""


class Orders:
    """Messages with keys, and a handler that fails for one in a hundred always, and for another one once."""

    def __init__(self, producer: Producer, topic: str) -> None:
        rng = random.Random(seed())
        numbers = rng.sample(range(_COUNT), 2 * _COUNT // 100)
        self.poison = set(numbers[::2])
        self._fail_once = set(numbers[1::2])
        self.handled: list[int] = []
        self._lock = threading.Lock()
        self.keys = [b"key-%d" % rng.randrange(_KEYS) for _ in range(_COUNT)]
        producer.send_many(topic, [b"%d" % number for number in range(_COUNT)], keys=self.keys).result(30)

    def handle(self, message: Message) -> None:
        assert message.value is not None
        number = int(message.value)
        with self._lock:
            if number in self._fail_once:
                self._fail_once.remove(number)
                raise HandlerFailed(f"{number} fails once")
            if number in self.poison:
                raise HandlerFailed(f"{number} fails always")
            self.handled.append(number)

    def by_key(self, numbers: Sequence[int]) -> dict[bytes, list[int]]:
        found = defaultdict(list)
        for number in numbers:
            found[self.keys[number]].append(number)
        return dict(found)

    def check(self, dead: Sequence[Message], *, in_order: bool) -> None:
        """Check that each message was handled once or is a dead letter."""
        letters = [int(message.value or b"") for message in dead]
        assert sorted(letters) == sorted(self.poison)
        assert sorted(self.handled) == sorted(set(range(_COUNT)) - self.poison)
        if in_order:
            for numbers in (*self.by_key(self.handled).values(), *self.by_key(letters).values()):
                assert numbers == sorted(numbers)


@pytest.fixture
def orders(bootstrap: str, new_topic: NewTopic) -> Iterator[tuple[Orders, Producer, str, str]]:
    """The orders, a producer, and the names of their topic and of its dead-letter topic."""
    topic, dead = new_topic(partitions=_PARTITIONS), new_topic(partitions=_PARTITIONS)
    with Producer(bootstrap) as producer:
        yield Orders(producer, topic), producer, topic, dead


def test_a_loop_retries_in_place_and_writes_dead_letters(
    bootstrap: str, orders: tuple[Orders, Producer, str, str], new_name: NewName
) -> None:
    book, producer, topic, dead = orders
    handle = RetryingHandler(book.handle, attempts=2, backoff=0.001)
    dead_letters = DeadLetterTopic(producer, dead)
    with connector(bootstrap, new_name()) as reader:
        for count, message in enumerate(reader.stream(topic), 1):
            try:
                handle(message)
            except HandlerFailed as error:
                dead_letters(message, error)
            if count == _COUNT:
                break
    book.check(list(read(bootstrap, dead)), in_order=True)


def run(consumers: Sequence[ParallelConsumer], until: Callable[[], bool]) -> None:
    """Run all *consumers* until a condition is true."""
    with ThreadPoolExecutor(len(consumers)) as pool:
        runs = [pool.submit(consumer.run) for consumer in consumers]
        try:
            wait_until(lambda: until() or any(each.done() for each in runs), 60, "all messages")
        finally:
            for consumer in consumers:
                consumer.stop()
        for each in runs:
            each.result()


def test_workers_write_dead_letters_and_keep_the_order_of_keys(
    bootstrap: str, orders: tuple[Orders, Producer, str, str], new_name: NewName
) -> None:
    book, producer, topic, dead = orders
    handle = RetryingHandler(book.handle, attempts=2, backoff=0.001)
    group = new_name()
    with connector(bootstrap, group) as reader, Admin(bootstrap) as admin:
        consumer = reader.parallel(topic, handle, workers=8, on_error=DeadLetterTopic(producer, dead))
        run([consumer], lambda: len(book.handled) + len(list(read(bootstrap, dead))) == _COUNT)
        reader.commit_offsets()
        assert sum(each.offset for each in admin.group_offsets(group).values()) == _COUNT
    book.check(list(read(bootstrap, dead)), in_order=True)


def test_a_retry_topic_lets_other_messages_pass_and_loses_none(
    bootstrap: str, orders: tuple[Orders, Producer, str, str], new_topic: NewTopic, new_name: NewName
) -> None:
    book, producer, topic, dead = orders
    again = new_topic(partitions=_PARTITIONS)
    retry = RetryTopic(producer, again, delay=0.2, attempts=2, then=DeadLetterTopic(producer, dead))
    with connector(bootstrap, new_name()) as reader, connector(bootstrap, new_name()) as retrier:
        run(
            [
                reader.parallel(topic, book.handle, workers=8, on_error=retry),
                retrier.parallel(again, retry.handler(book.handle), workers=2, on_error=retry),
            ],
            lambda: len(book.handled) + len(list(read(bootstrap, dead))) == _COUNT,
        )
    book.check(list(read(bootstrap, dead)), in_order=False)
