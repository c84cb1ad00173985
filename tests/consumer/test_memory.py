"""A consumer whose messages are not read keeps its memory within its budget, measured from outside the
process."""

import subprocess
import sys

import pytest

from tests.consumer.feed import Feed

pytestmark = pytest.mark.both_kernels

MIB = 1024 * 1024

PROGRAM = """
import resource, sys, threading, time
from pyklient.consumer.consumer_connector import ConsumerConnector

def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()

address, topic, group, budget, streams = sys.argv[1:]
options = dict(auto_offset_reset="earliest", prefetch_max_bytes=int(budget), fetch_max_wait_ms=50)
with ConsumerConnector(address, group_id=group, **options) as connector:
    before = most = resident()
    made = connector.create_message_streams({topic: int(streams)})[topic]
    if len(made) > 1:
        for batch in made[-1].batches(timeout=0.5):  # one is read to its end, the others are not
            most = max(most, resident())
            if not batch:
                break
    patience = time.monotonic() + 30.0
    while most - before <= int(budget) / 4 and time.monotonic() < patience:
        most = max(most, resident())
        threading.Event().wait(0.02)
    quiet = time.monotonic() + 1.0
    while time.monotonic() < quiet:
        most = max(most, resident())
        threading.Event().wait(0.02)
    print(most - before)
"""


@pytest.fixture(scope="module")
def large_topic(feed: Feed) -> str:
    """Create a topic of 128 MiB in four partitions."""
    topic = feed.topic(4)
    values = [bytes([number]) * 10_000 for number in range(100)]
    for number in range(4 * 32):
        feed.send(topic, values, partition=number % 4)
    return topic


@pytest.mark.parametrize(("budget", "streams"), [(8 * MIB, 4), (32 * MIB, 1)])
def test_a_consumer_that_is_not_read_stays_within_its_budget(
    feed: Feed, large_topic: str, budget: int, streams: int
) -> None:
    arguments = [feed.bootstrap_servers, large_topic, feed.name(), str(budget), str(streams)]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, timeout=120, check=True
    )
    grown = int(done.stdout)
    assert grown < budget + 64 * MIB
    assert grown > budget / 4, "it does fetch ahead"
