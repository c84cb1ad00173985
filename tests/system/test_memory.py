"""How much memory clients take when the other side is too slow, measured from outside."""

import subprocess
import sys
from pathlib import Path

import pytest

from pyklient import Producer
from tests.servers.fixtures import NewName, StartReference
from tests.servers.topics import create_topic

_ROOT = Path(__file__).parents[2]
_MIB = 1024 * 1024
_ALLOWANCE = 64 * _MIB

_MEASURE = """
import resource, sys, time
from pyklient import BufferFullError, ConsumerConnector, Producer
def peak():
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024
bootstrap, topic = sys.argv[1:]
"""

_PRODUCE = """
producer = Producer(bootstrap, buffer_memory={buffer}, max_block_ms=1000, request_timeout_ms=60000,
                    delivery_timeout_ms=120000)
producer.send(topic, b"first").result(timeout=30)
print("ready", flush=True)
sys.stdin.readline()
before, sent = peak(), 0
try:
    while True:
        producer.send(topic, b"%0100d" % sent)
        sent += 1
except BufferFullError:
    pass
print(sent, peak() - before, flush=True)
sys.stdin.readline()
"""

_CONSUME = """
before = peak()
connector = ConsumerConnector(bootstrap, group_id=topic, auto_offset_reset="earliest",
                              prefetch_max_bytes={prefetch})
stream = connector.stream(topic)
message = next(iter(stream))
quiet, last = time.monotonic(), peak()
while time.monotonic() - quiet < 2:
    time.sleep(0.05)
    if peak() > last:
        quiet, last = time.monotonic(), peak()
print(message.offset, last - before, flush=True)
sys.stdin.readline()
"""


class Measured:
    """A client in a process of its own that tells how much memory it came to need."""

    def __init__(self, program: str, bootstrap: str, topic: str) -> None:
        command = [sys.executable, "-c", _MEASURE + program, bootstrap, topic]
        self._process = subprocess.Popen(
            command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def line(self) -> str:
        """The next line it prints."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def go_on(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(timeout=10)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


@pytest.mark.slow
def test_a_producer_against_a_stopped_broker_stays_within_its_buffer(
    start_reference: StartReference, new_name: NewName
) -> None:
    broker = start_reference()
    topic = create_topic(broker.bootstrap_servers, new_name())
    buffer = 32 * _MIB
    client = Measured(_PRODUCE.format(buffer=buffer), broker.bootstrap_servers, topic)
    try:
        assert client.line() == "ready"
        broker.process.pause()
        client.go_on()
        sent, grown = map(int, client.line().split())
    finally:
        client.kill()
        broker.process.resume()
    assert sent * 100 > buffer // 2
    assert sent * 100 <= buffer
    assert grown < buffer + _ALLOWANCE


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
    client = Measured(_CONSUME.format(prefetch=prefetch), broker.bootstrap_servers, topic)
    try:
        offset, grown = map(int, client.line().split())
    finally:
        client.kill()
    assert offset == 0
    assert prefetch // 2 < grown < prefetch + _ALLOWANCE
