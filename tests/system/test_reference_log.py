"""The reference broker keeps what it has acknowledged, through segments and through SIGKILL."""

import itertools
import random
import threading
from pathlib import Path

import pytest

from pyklient import Delivery, KafkaError, Producer, SimpleConsumer, read
from tests.servers.fixtures import NewName, StartReference
from tests.servers.process import wait_until
from tests.servers.topics import create_topic
from tests.system.reading import connector

pytestmark = pytest.mark.slow

_SEGMENT = 64 * 1024


def segments(data: Path, topic: str) -> list[Path]:
    """The log segments of partition 0 of *topic*, oldest first."""
    return sorted(data.rglob(f"{topic}-0/*.log"))


def test_a_log_of_several_segments_survives_sigkill_with_every_acknowledged_record(
    start_reference: StartReference, new_name: NewName
) -> None:
    broker = start_reference(segment_bytes=_SEGMENT)
    topic = create_topic(broker.bootstrap_servers, new_name())
    sent: list[Delivery] = []
    stop = threading.Event()
    producer = Producer(
        broker.bootstrap_servers, batch_size=2_000, request_timeout_ms=1_000, delivery_timeout_ms=8_000
    )

    def produce() -> None:
        try:
            for number in itertools.count():
                sent.append(producer.send(topic, b"%08d" % number + random.randbytes(100)))
                if stop.is_set() or (sent[0].done() and sent[0].exception(timeout=0) is not None):
                    return
        except KafkaError:
            return

    thread = threading.Thread(target=produce, daemon=True)
    thread.start()
    enough = 3 * _SEGMENT // 100 + 1
    wait_until(lambda: len(segments(broker.data, topic)) > 4, 60, "four segments rolled")
    wait_until(lambda: sent[enough].done(), 60, "three segments acknowledged")
    broker.kill()
    stop.set()
    thread.join(30)
    outcomes = [(number, delivery.exception(timeout=30)) for number, delivery in enumerate(sent)]
    producer.close()
    acknowledged = [number for number, error in outcomes if error is None]
    assert len(acknowledged) * 100 > 3 * _SEGMENT

    broker.restart()
    stored = {message.offset: message.value for message in read(broker.bootstrap_servers, topic, start=0)}
    for number in acknowledged:
        offset = sent[number].result(timeout=0).offset
        assert stored[offset] is not None
        assert int(stored[offset][:8]) == number
    with Producer(broker.bootstrap_servers) as again:
        assert again.send(topic, b"after").result(timeout=30).offset == len(stored)


def test_an_offset_in_the_middle_of_the_log_is_found(
    start_reference: StartReference, new_name: NewName
) -> None:
    broker = start_reference(segment_bytes=_SEGMENT)
    topic = create_topic(broker.bootstrap_servers, new_name())
    with Producer(broker.bootstrap_servers, batch_size=1_000) as producer:
        for number in range(4_000):
            producer.send(topic, b"%08d" % number + bytes(60))
    assert len(segments(broker.data, topic)) > 3
    indexes = list(broker.data.rglob(f"{topic}-0/*.index"))
    assert any(index.stat().st_size > 0 for index in indexes)
    broker.kill()
    broker.restart()
    with SimpleConsumer(broker.bootstrap_servers) as consumer:
        for offset in (0, 1, 999, 2_000, 2_001, 3_500, 3_999):
            fetched = consumer.fetch(topic, 0, offset, 4_000)
            assert fetched.messages[0].offset == offset
            assert int(fetched.messages[0].value[:8]) == offset


def test_committed_offsets_and_topics_survive_sigkill(
    start_reference: StartReference, new_name: NewName
) -> None:
    broker = start_reference()
    topic, group = create_topic(broker.bootstrap_servers, new_name(), partitions=3), new_name()
    with Producer(broker.bootstrap_servers) as producer:
        for number in range(30):
            producer.send(topic, b"%d" % number, partition=number % 3)
    with connector(broker.bootstrap_servers, group, enable_auto_commit=False) as reader:
        first = list(itertools.islice(reader.stream(topic), 12))
        reader.commit_offsets()
    broker.kill()
    broker.restart()
    with connector(broker.bootstrap_servers, group, enable_auto_commit=False) as reader:
        rest = list(itertools.islice(reader.stream(topic), 18))
    assert sorted(int(message.value) for message in first + rest) == list(range(30))
