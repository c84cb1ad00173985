"""``group_transaction``: messages whose results are committed exactly once."""

import threading
import time
from typing import Any

import pytest

from pyklient import ConsumerConnector, Producer, TopicPartition, group_transaction, read
from pyklient.errors import ClosedError, ConfigurationError
from tests.servers.fixtures import NewName, NewTopic
from tests.servers.process import wait_until

pytestmark = pytest.mark.brokers(needs=["transactions"])


def connect(bootstrap: str, group: str, **options: Any) -> ConsumerConnector:
    given: dict[str, Any] = {
        "auto_offset_reset": "earliest",
        "enable_auto_commit": False,
        "isolation_level": "read_committed",
        "heartbeat_interval_ms": 200,
        **options,
    }
    return ConsumerConnector(bootstrap, group_id=group, **given)


def fill(bootstrap: str, topic: str, count: int) -> None:
    with Producer(bootstrap) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number, key=b"%d" % (number % 7))


def committed(bootstrap: str, topic: str) -> list[bytes]:
    return [message.value or b"" for message in read(bootstrap, topic, isolation_level="read_committed")]


def test_results_and_offsets_are_committed_together(
    bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    source, target, group = new_topic(), new_topic(), new_name()
    where = TopicPartition(source, 0)
    fill(bootstrap, source, 25)
    with connect(bootstrap, group) as connector, Producer(bootstrap, transactional_id=group) as producer:
        stream = connector.stream(source)
        handled = 0
        while handled < 25:
            with group_transaction(stream, producer, max_records=10) as messages:
                for message in messages:
                    producer.send(target, message.value, key=message.key)
                handled += len(messages)
            stored = stream.committed(where)
            assert handled == 0 or (stored is not None and stored.offset == handled)
        with group_transaction(stream, producer, timeout=0.1) as messages:
            assert messages == []
    assert committed(bootstrap, target) == [b"%d" % number for number in range(25)]


def test_an_exception_aborts_the_transaction_and_the_messages_come_again(
    bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    source, target, group = new_topic(), new_topic(), new_name()
    fill(bootstrap, source, 5)
    with connect(bootstrap, group) as connector, Producer(bootstrap, transactional_id=group) as producer:
        stream = connector.stream(source)
        for attempt in range(3):
            try:
                with group_transaction(stream, producer) as messages:
                    for message in messages:
                        producer.send(target, message.value)
                        if attempt < 2 and message.value == b"3":
                            raise ValueError("three")
            except ValueError:
                assert attempt < 2
        assert len(messages) == 5
    assert committed(bootstrap, target) == [b"%d" % number for number in range(5)]


class Stage:
    """A member of *group* that copies *source* to *target* in a thread, until :meth:`stop`."""

    def __init__(self, bootstrap: str, source: str, target: str, group: str, name: str) -> None:
        self._arguments = bootstrap, source, target, group, name
        self._stopping = threading.Event()
        self.error: BaseException | None = None
        self.handled = 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        bootstrap, source, target, group, name = self._arguments
        try:
            with (
                connect(bootstrap, group, rebalance_timeout_ms=2_000) as connector,
                Producer(bootstrap, transactional_id=name) as producer,
            ):
                stream = connector.stream(source)
                while not self._stopping.is_set():
                    with group_transaction(stream, producer, max_records=20, timeout=0.2) as messages:
                        for message in messages:
                            producer.send(target, message.value, message.key, message.partition)
                            time.sleep(0.002)
                    self.handled += len(messages)
        except BaseException as error:
            self.error = error

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(60)
        assert self.error is None, self.error


def test_members_that_come_and_go_copy_each_message_once(
    bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    source, target, group = new_topic(partitions=4), new_topic(partitions=4), new_name()
    total = 2_000
    fill(bootstrap, source, total)
    stages = [Stage(bootstrap, source, target, group, f"{group}-{number}") for number in range(2)]
    try:
        for number in range(2, 5):
            wait_until(lambda: stages[0].handled >= 150, 60, "progress")
            stages.append(Stage(bootstrap, source, target, group, f"{group}-{number}"))
            stages.pop(0).stop()
        wait_until(lambda: len(committed(bootstrap, target)) >= total, 120, "all messages", poll=1)
    finally:
        for stage in stages:
            stage.stop()
    found = read(bootstrap, target, isolation_level="read_committed")
    wanted = read(bootstrap, source)
    assert _by_partition(found) == _by_partition(wanted)


def _by_partition(messages: Any) -> dict[int, list[bytes]]:
    found: dict[int, list[bytes]] = {}
    for message in messages:
        found.setdefault(message.partition, []).append(message.value)
    return found


def test_clients_that_cannot_do_it_are_refused_before_any_message_is_read(
    bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    source, group = new_topic(), new_name()
    fill(bootstrap, source, 1)
    with Producer(bootstrap, transactional_id=group) as producer:
        with connect(bootstrap, group, enable_auto_commit=True) as connector:
            stream = connector.stream(source)
            with (
                pytest.raises(ConfigurationError, match="enable_auto_commit=False"),
                group_transaction(stream, producer),
            ):
                raise AssertionError
        with connect(bootstrap, group) as connector:
            stream = connector.stream(source)
        with pytest.raises(ClosedError), group_transaction(stream, producer):
            raise AssertionError
    with Producer(bootstrap) as plain, connect(bootstrap, group) as connector:
        stream = connector.stream(source)
        with pytest.raises(ConfigurationError, match="transactional_id"), group_transaction(stream, plain):
            raise AssertionError
        assert next(iter(stream)).value == b"0", "it comes again"
