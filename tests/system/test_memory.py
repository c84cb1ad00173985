"""The memory that clients use when the other side is too slow, measured from outside."""

import queue
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pyklient import Producer
from tests.servers.fixtures import NewName, StartReference
from tests.servers.process import resident
from tests.servers.topics import create_topic

_ROOT = Path(__file__).parents[2]
_MIB = 1024 * 1024
_ALLOWANCE = 64 * _MIB

_PRODUCE = """
import sys
from pyklient import BufferFullError, Producer
bootstrap, topic, buffer = sys.argv[1:]
producer = Producer(bootstrap, buffer_memory=int(buffer), max_block_ms=1000, request_timeout_ms=60000,
                    delivery_timeout_ms=120000)
producer.send(topic, b"first").result(timeout=30)
print("ready", flush=True)
sys.stdin.readline()
sent = 0
try:
    while True:
        producer.send(topic, b"%0100d" % sent)
        sent += 1
except BufferFullError:
    print(sent, flush=True)
sys.stdin.readline()
"""

_CONSUME = """
import sys
from pyklient import ConsumerConnector
bootstrap, topic, prefetch = sys.argv[1:]
connector = ConsumerConnector(bootstrap, group_id=topic, auto_offset_reset="earliest",
                              prefetch_max_bytes=int(prefetch))
print("ready", flush=True)
sys.stdin.readline()
print(next(iter(connector.stream(topic))).offset, flush=True)
sys.stdin.readline()
"""


class Client:
    """A client in a process of its own, which is watched from here."""

    def __init__(self, program: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", program, *arguments],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._lines.get(timeout=30) == "ready\n"
        self._before = resident(self._process.pid)

    def run(self) -> tuple[int, int]:
        """Let it go on. → the number it prints, and how many bytes it grew by at most, before and after."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        number, peak = None, self._before
        changed = time.monotonic()
        while number is None or time.monotonic() - changed < 1:
            held = resident(self._process.pid)
            if held > peak:
                peak, changed = held, time.monotonic()
            if number is None and not self._lines.empty():
                number, changed = int(self._lines.get()), time.monotonic()
            assert self._process.poll() is None
            time.sleep(0.02)
        return number, peak - self._before

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(timeout=60)
        self._reader.join(timeout=10)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)


@pytest.mark.slow
def test_a_producer_against_a_stopped_broker_stays_within_its_buffer(
    start_reference: StartReference, new_name: NewName
) -> None:
    broker = start_reference()
    topic = create_topic(broker.bootstrap_servers, new_name())
    buffer = 32 * _MIB
    client = Client(_PRODUCE, broker.bootstrap_servers, topic, str(buffer))
    try:
        broker.process.pause()
        sent, grown = client.run()
    finally:
        client.kill()
        broker.process.resume()
    assert buffer // 2 < sent * 100 <= buffer
    assert buffer // 2 < grown < buffer + _ALLOWANCE


@pytest.mark.slow
def test_a_consumer_that_is_not_read_stays_within_its_prefetch(
    start_reference: StartReference, new_name: NewName
) -> None:
    broker = start_reference()
    topic = create_topic(broker.bootstrap_servers, new_name(), partitions=4)
    with Producer(broker.bootstrap_servers) as producer:
        value = bytes(10_000)
        for number in range(30_000):
            producer.send(topic, value, partition=number % 4)
    prefetch = 32 * _MIB
    client = Client(_CONSUME, broker.bootstrap_servers, topic, str(prefetch))
    try:
        offset, grown = client.run()
    finally:
        client.kill()
    assert offset == 0
    assert prefetch // 2 < grown < prefetch + _ALLOWANCE
