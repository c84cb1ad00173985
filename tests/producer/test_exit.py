"""The end of a program with producers left open: their records are stored."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyklient.broker import Broker
from pyklient.consumer.bounded_read import read

ROOT = Path(__file__).parents[2]
TOPIC = "clicks"
RECORDS = 2_000

PROGRAM = """
import atexit, sys, threading
from pyklient.producer.producer import Producer

def refuse_threads():
    def start(thread):
        raise RuntimeError("can't create new thread at interpreter shutdown")
    threading.Thread.start = start

producers = [Producer({servers!r}, linger_ms=60_000, {options}) for _ in range(2)]
for number in range({records}):
    producers[number % 2].send({topic!r}, b"%d" % number)
{last}
"""


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        broker.create_topic(TOPIC, 5)
        yield broker


def run(broker: Broker, *flags: str, options: str = "", last: str = "") -> subprocess.CompletedProcess[str]:
    """Run a program that sends records with two producers, does *last*, and ends with both left open."""
    program = PROGRAM.format(
        servers=broker.bootstrap_servers, topic=TOPIC, records=RECORDS, options=options, last=last
    )
    return subprocess.run(
        [sys.executable, *flags, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def stored(broker: Broker) -> list[int]:
    with read(broker.bootstrap_servers, TOPIC) as messages:
        return sorted(int(message.value or b"") for message in messages)


@pytest.mark.parametrize("action", ["always", "error"])
def test_all_producers_left_open_deliver_at_exit_whatever_becomes_of_warnings(
    broker: Broker, action: str
) -> None:
    ran = run(broker, "-W", action)
    assert stored(broker) == list(range(RECORDS))
    assert "ResourceWarning" in ran.stderr
    assert "was never closed" in ran.stderr


@pytest.mark.parametrize(
    "options",
    [
        "acks='all'",
        "acks=1",
        "acks=0",
        # The connections are opened again at exit, and the host's name is looked up for that.
        pytest.param("connections_max_idle_ms=1", id="new-connections"),
    ],
)
def test_producers_left_open_deliver_at_exit_where_no_thread_can_be_started_any_more(options: str) -> None:
    # So it is in Python 3.12.0 and 3.12.1.
    with Broker(advertised_host="localhost") as broker:
        broker.create_topic(TOPIC, 5)
        ran = run(broker, options=options, last="atexit.register(refuse_threads)")
        assert ran.returncode == 0, ran.stderr
        assert stored(broker) == list(range(RECORDS)), ran.stderr


def test_a_producer_left_open_delivers_to_a_broker_of_its_own_process_that_is_left_open_too(
    tmp_path: Path,
) -> None:
    program = f"""
from pyklient.broker import Broker
from pyklient.producer.producer import Producer
broker = Broker(data_dir={str(tmp_path)!r}).start()
broker.create_topic({TOPIC!r})
producer = Producer(broker.bootstrap_servers, linger_ms=60_000)
for number in range(100):
    producer.send({TOPIC!r}, b"%d" % number)
"""
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, timeout=60, check=True)
    with Broker(data_dir=tmp_path) as broker:
        assert stored(broker) == list(range(100))


# In Python 3.12.0 and 3.12.1, no thread can be started any more when the main thread has ended.
_MAIN_WAITS = sys.version_info[:3] in ((3, 12, 0), (3, 12, 1))


@pytest.mark.parametrize(
    "last",
    [
        pytest.param("main()", id="at-once"),
        pytest.param("main()\nraise SystemExit(0)", id="by-an-exception"),
        pytest.param(
            "thread = threading.Thread(target=main)\nthread.start()" + "\nthread.join()" * _MAIN_WAITS,
            id="in-a-thread",
        ),
        pytest.param(
            "child = multiprocessing.get_context('fork').Process(target=main)\nchild.start()\nchild.join()",
            id="in-a-child",
        ),
        pytest.param(
            "child = multiprocessing.get_context('fork').Process(target=main, args=(kept,))\n"
            "child.start()\nchild.join()",
            id="left-open-in-a-child",
        ),
    ],
)
@pytest.mark.parametrize("action", ["always", "error"])
def test_a_producer_that_a_function_drops_or_a_child_leaves_open_delivers_before_its_process_ends(
    broker: Broker, action: str, last: str
) -> None:
    program = f"""
import multiprocessing, threading
from pyklient.producer.producer import Producer
kept = []
def main(keep=None):
    producer = Producer({broker.bootstrap_servers!r}, linger_ms=60_000)
    for number in range(100):
        producer.send({TOPIC!r}, b"%d" % number)
    if keep is not None:
        keep.append(producer)
{last}
"""
    command = [sys.executable, "-W", action, "-c", program]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert stored(broker) == list(range(100)), ran.stderr
    assert "was never closed" in ran.stderr
