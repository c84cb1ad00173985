"""The memory that a producer at full speed uses while its broker does not answer, measured from outside the
process."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.net.scripted import SILENCE
from tests.producer.script import TOPIC, LoseAnswer, ProduceBroker

pytestmark = pytest.mark.both_kernels

ROOT = Path(__file__).parents[3]
MIB = 1 << 20

PROGRAM = """
import re, resource, sys, time
from pyklient.errors import BufferFullError
from pyklient.producer.producer import Producer
def memory(which):
    # What getrusage tells on Linux is inherited from the process that started this one.
    try:
        with open("/proc/self/status") as status:
            return int(re.search(which + r":\\s+(\\d+)", status.read())[1]) * 1024
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
producer = Producer(sys.argv[1], buffer_memory={buffer}, max_block_ms=500)
# On a busy machine, the metadata of thousands of partitions may take longer than max_block_ms.
producer._accumulator.topics.wait({topic!r}, time.monotonic() + 30)
producer.send({topic!r}, b"first").result(30)
before, sent = memory('VmRSS'), 0
try:
    while True:
        {send}
        sent += 1
except BufferFullError:
    pass
print(sent, memory('VmHWM') - before, flush=True)
producer._close(0)
"""


@pytest.mark.parametrize(
    ("send", "least"),
    [
        pytest.param("producer.send({topic!r}, b'%0100d' % sent)", 100, id="100-bytes"),
        pytest.param("producer.send({topic!r}, b'%d' % sent)", 5, id="small"),
        pytest.param("producer.send({topic!r}, bytes(100_000))", 100_000, id="large"),
        pytest.param(
            "producer.send({topic!r}, b'x', key=b'%d' % sent, partition=sent % 50)", 5, id="partitions"
        ),
        pytest.param("producer.send({topic!r}, b'x', headers=[('a', b'%d' % sent)])", 5, id="headers"),
        pytest.param(
            "producer.send({topic!r}, b'x', on_delivery=lambda delivery, sent=sent: sent)", 5, id="callbacks"
        ),
    ],
)
def test_memory_stays_within_the_buffer_and_is_made_use_of(send: str, least: int) -> None:
    buffer = 8 * MIB
    sent, grown = filled(buffer, send, partitions=50)
    assert sent * least <= buffer
    assert buffer // 2 < grown < buffer + 8 * MIB


@pytest.mark.parametrize("size", [10, 200, 3_000])
def test_memory_stays_within_the_buffer_with_ten_thousand_partitions(size: int) -> None:
    buffer = 48 * MIB
    send = f"producer.send({{topic!r}}, bytes({size}), partition=sent % 10_000)"
    _, grown = filled(buffer, send, partitions=10_000)
    assert buffer // 2 < grown < buffer * 1.1


def filled(buffer: int, send: str, partitions: int) -> tuple[int, int]:
    """Return how many records a process sends before its memory is used up, and how many bytes it grows."""
    with ProduceBroker(partitions) as broker:
        broker.faults.extend([None, *[LoseAnswer(SILENCE)] * 1_000])
        program = PROGRAM.format(buffer=buffer, topic=TOPIC, send=send.format(topic=TOPIC))
        ran = subprocess.run(
            [sys.executable, "-c", program, broker.address],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert ran.returncode == 0, ran.stderr
    sent, grown = map(int, ran.stdout.split())
    return sent, grown
