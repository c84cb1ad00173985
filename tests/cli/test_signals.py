"""Ctrl-C in the middle of steps that must be completed."""

import signal
from collections.abc import Sequence

import pytest

from pyklient.admin import Admin
from pyklient.broker import Broker
from pyklient.cli.commands.consume import _follow, _Output
from pyklient.cli.signals import deferred
from pyklient.kernel import Message
from pyklient.producer.producer import Producer
from pyklient.topic_partition import TopicPartition
from tests.servers.fixtures import NewName


def test_an_interrupt_waits_for_the_end_of_the_block_and_then_takes_effect() -> None:
    done: list[str] = []

    def write() -> None:
        with deferred():
            signal.raise_signal(signal.SIGINT)
            done.append("written")
        done.append("next")

    with pytest.raises(KeyboardInterrupt):
        write()
    assert done == ["written"]


def test_a_second_interrupt_does_not_wait() -> None:
    done: list[str] = []

    def write() -> None:
        with deferred():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            done.append("written")

    with pytest.raises(KeyboardInterrupt):
        write()
    assert done == []


class Interrupted(_Output):
    """An output that writes one batch, and is interrupted before the next batch is asked for."""

    def write(self, batch: Sequence[Message]) -> None:
        super().write(batch)
        if batch:
            raise KeyboardInterrupt


def test_what_was_written_before_an_interrupt_is_committed(
    broker: Broker, new_name: NewName, tmp_path_factory: pytest.TempPathFactory
) -> None:
    topic, group = new_name(), new_name()
    with Producer(broker.bootstrap_servers) as producer:
        producer.send_many(topic, [b"1", b"2", b"3"])
    options = {
        "bootstrap_servers": broker.bootstrap_servers,
        "group_id": group,
        "auto_offset_reset": "earliest",
    }
    written = tmp_path_factory.mktemp("out") / "lines"
    with written.open("wb") as file:
        output = Interrupted(file, lambda message: (message.value or b"") + b"\n", None, None)
        with pytest.raises(KeyboardInterrupt):
            _follow([topic], options, output)
    assert written.read_bytes() == b"1\n2\n3\n"
    with Admin(broker.bootstrap_servers) as admin:
        assert admin.group_offsets(group)[TopicPartition(topic, 0)].offset == 3
