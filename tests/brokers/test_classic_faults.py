"""Classic producers while a real broker is killed and started again, or stands still."""

import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

import pytest

import pyklient
from pyklient import FailedToSendMessageError, KeyedMessage, Producer
from tests.brokers.release import Release
from tests.classic.loads import Dropped, FullSpeed, accepts, stored
from tests.servers.fixtures import NewName
from tests.servers.kafka import KraftCluster
from tests.servers.pool import ServerPool
from tests.servers.process import Growth, wait_until
from tests.servers.zookeeper_kafka import ZooKeeperKafka

_QUEUE = 1000
_BATCH = 100
_ENQUEUE_TIMEOUT_MS = 200
_MOST_MEMORY = 64 << 20


def releases(*long: str) -> list[object]:
    """Return parameters for the brokers of record formats 0, 1 and 2; those in *long* are for long runs."""
    return [
        pytest.param(
            version,
            marks=[pytest.mark.uses(f"kafka-{version}"), *([pytest.mark.long] if version in long else [])],
        )
        for version in ("0.8.2.2", "0.10.2.2", "4.3.1")
    ]


@pytest.fixture(scope="module")
def release(request: pytest.FixtureRequest, servers: ServerPool) -> Release:
    """The broker of the release that a test asks for."""
    server = servers.get(f"kafka-{request.param}")
    assert isinstance(server, ZooKeeperKafka | KraftCluster)
    return Release(request.param, server)


class InTurn:
    """A thread that sends one message after the other with a synchronous producer, until ``stop``."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self.confirmed: list[bytes] = []
        self.failed: list[bytes] = []
        self._send = send
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ends.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        while not self._ends.is_set():
            value = b"%d" % (len(self.confirmed) + len(self.failed))
            try:
                self._send(value)
            except FailedToSendMessageError as error:
                self.failed += [message.message for message in error.unsent]
            else:
                self.confirmed.append(value)


def wait_for_more(in_turn: InTurn, full_speed: FullSpeed) -> None:
    """Return when both have sent more messages, the asynchronous producer more than its queue holds."""
    confirmed, accepted = len(in_turn.confirmed) + 20, full_speed.accepted + 2 * _QUEUE
    wait_until(
        lambda: len(in_turn.confirmed) >= confirmed and full_speed.accepted >= accepted, 60, "messages"
    )


@pytest.mark.restarts
@pytest.mark.parametrize("release", releases("4.3.1"), indirect=True)
def test_what_was_confirmed_is_there_after_a_broker_was_killed_and_started_again(
    release: Release, new_name: NewName
) -> None:
    """The synchronous producer gives up soon, and says so. The asynchronous one tries until it succeeds."""
    topics = [release.new_topic(new_name(), partitions=2) for _ in range(2)]
    given = {"metadata.broker.list": release.bootstrap, "request.required.acks": 1}
    queued = given | {
        "producer.type": "async",
        "request.required.acks": -1,
        "message.send.max.retries": 1000,
        "queue.buffering.max.messages": _QUEUE,
    }
    dropped = Dropped()
    with (
        Producer.from_properties(given | {"message.send.max.retries": 1}, "0.10") as sync,
        Producer.from_properties(queued, "0.10", callback_handler=dropped) as producer,
    ):
        in_turn = InTurn(lambda value: sync.send(KeyedMessage(topics[0], value, key=b"key")))
        full_speed = FullSpeed(producer, topics[1], dropped)
        wait_for_more(in_turn, full_speed)
        release.server.kill()
        wait_until(lambda: bool(in_turn.failed), 60, "an error")
        release.server.restart()
        wait_for_more(in_turn, full_speed)
        in_turn.stop()
        full_speed.stop()
        producer.close(60)
    found = stored(release.bootstrap, topics[0])
    assert set(in_turn.confirmed) <= set(found)
    assert set(found) <= {*in_turn.confirmed, *in_turn.failed}
    assert producer.dropped_count == full_speed.full == 0
    numbers = list(range(full_speed.accepted))
    assert list(map(int, full_speed.in_order(release.bootstrap))) == numbers


def begin_load(release: Release, topic: str, wait_ms: int, opened: ExitStack) -> FullSpeed:
    """Send to a new topic at full speed. While the queue is full, the program waits for *wait_ms*."""
    given = {
        "metadata.broker.list": release.bootstrap,
        "producer.type": "async",
        "request.required.acks": 1,
        "request.timeout.ms": 500,
        "queue.enqueue.timeout.ms": wait_ms,
        "queue.buffering.max.messages": _QUEUE,
        "batch.num.messages": _BATCH,
    }
    dropped = Dropped()
    producer = opened.enter_context(Producer.from_properties(given, "0.8", callback_handler=dropped))
    load = FullSpeed(producer, release.new_topic(topic), dropped)
    wait_until(lambda: load.accepted > 2 * _QUEUE, 60, "messages")
    return load


def held(load: FullSpeed) -> int:
    """Return how many messages a producer has accepted and not dropped."""
    dropped = len(load.dropped.values)
    return load.accepted - dropped


@pytest.mark.parametrize(
    ("release", "seconds"),
    [
        pytest.param("0.10.2.2", 4, marks=pytest.mark.uses("kafka-0.10.2.2")),
        *(
            pytest.param(version, 60, marks=[pytest.mark.uses(f"kafka-{version}"), pytest.mark.long])
            for version in ("0.8.2.2", "0.10.2.2", "4.3.1")
        ),
    ],
    indirect=["release"],
)
def test_queues_are_bounded_and_full_where_asked_for_while_a_broker_stands_still(
    release: Release, seconds: int, new_name: NewName
) -> None:
    with ExitStack() as opened:
        loads = {wait: begin_load(release, new_name(), wait, opened) for wait in (0, _ENQUEUE_TIMEOUT_MS, -1)}
        growth = Growth(os.getpid())
        release.process.pause()
        try:
            before = {wait: (load.full, held(load)) for wait, load in loads.items()}
            threading.Event().wait(seconds)
            after = {wait: (load.full, held(load)) for wait, load in loads.items()}
        finally:
            release.process.resume()
        assert growth.peak < _MOST_MEMORY
        full = {wait: after[wait][0] - before[wait][0] for wait in loads}
        assert full[0] > 0
        assert 0 < full[_ENQUEUE_TIMEOUT_MS] <= seconds * 1000 / _ENQUEUE_TIMEOUT_MS + 1
        assert full[-1] == 0
        # In the queue, in the batch that is being filled, in that of the event handler, and one just dropped.
        assert all(after[wait][1] - before[wait][1] <= _QUEUE + 3 * _BATCH for wait in loads)
        for load in loads.values():
            load.stop()
        assert next(iter(pyklient.read(release.bootstrap, loads[0].topic)))  # the broker serves again
        for load in loads.values():
            last = KeyedMessage(load.topic, b"-1", key=b"key")
            wait_until(partial(accepts, load.producer, last), 60, "space in the queue")
            load.producer.close(60)
            assert load.producer.dropped_count == len(load.dropped.values)
            found = set(map(int, stored(release.bootstrap, load.topic)))
            assert set(range(-1, load.accepted)) - set(map(int, load.dropped.values)) <= found
            assert -1 in found
