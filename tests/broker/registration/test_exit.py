"""The end of a program with a registered broker and a ZooKeeper consumer left open: both sessions end."""

import subprocess
import sys

import pytest

from tests.servers.zookeeper import connected, new_chroot
from tests.servers.zookeeper_kafka import ZooKeeperKafka
from tools.repository import ROOT

pytestmark = pytest.mark.java

_PROGRAM = """
import atexit, sys, threading
from pyklient import ConsumerConnector, Producer
from pyklient.broker import Broker

def refuse_threads():
    def start(thread):
        raise RuntimeError("can't create new thread at interpreter shutdown")
    threading.Thread.start = start

broker = Broker(node_id=7, zookeeper=sys.argv[1], zookeeper_session_timeout_ms=10_000).start()
broker.create_topic("t")
with Producer(broker.bootstrap_servers) as producer:
    producer.send_many("t", [b"1", b"2"])
connector = ConsumerConnector(
    zookeeper=sys.argv[1],
    coordination="zookeeper",
    offsets_storage="zookeeper",
    group_id="g",
    auto_offset_reset="earliest",
    zookeeper_session_timeout_ms=10_000,
)
messages = iter(connector.stream("t"))
print(next(messages).value, next(messages).value)
if sys.argv[2] == "refused":
    atexit.register(refuse_threads)
"""


@pytest.mark.parametrize(
    "threads",
    [
        "started",
        "refused",  # as in Python 3.12.0 and 3.12.1
    ],
)
def test_sessions_with_zookeeper_end_with_the_program_also_where_no_thread_can_be_started_any_more(
    zookeeper_kafka: ZooKeeperKafka, threads: str
) -> None:
    address = new_chroot(zookeeper_kafka.zookeeper.hosts)
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", _PROGRAM, address, threads],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "b'1' b'2'\n"
    with connected(address) as client:
        assert client.get_children("/brokers/ids") == []
        assert client.get_children("/consumers/g/ids") == []
        assert client.get("/consumers/g/offsets/t/0")[0] == b"1", "the message in hand is not committed"
    assert "could not be closed" not in ran.stderr
    assert "RuntimeError" not in ran.stderr
