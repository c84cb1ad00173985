"""Members of a ZooKeeper group on a real broker, while their sessions end, nodes are garbled and a process is
stopped."""

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from pyklient import Producer
from tests.servers.fixtures import NewName
from tests.servers.process import wait_until
from tests.servers.zookeeper import connected
from tests.servers.zookeeper_kafka import ZooKeeperKafka
from tests.system.members import Member

pytestmark = pytest.mark.slow

_SESSION_MS = 1000


class Flow:
    """A topic of one partition into which records flow, and a group that reads it."""

    def __init__(self, kafka: ZooKeeperKafka, nodes: KazooClient, topic: str, group: str) -> None:
        self.kafka, self.nodes, self.topic, self.group = kafka, nodes, topic, group
        self.sent = 0
        self.offsets: list[int] = []
        """All offsets that the group has committed to ZooKeeper, in order."""
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._send)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop the records."""
        self._ends.set()
        self._thread.join()

    def owner(self) -> str:
        path = f"/consumers/{self.group}/owners/{self.topic}/0"
        try:
            return self.nodes.get(path)[0].decode()
        except NoNodeError:
            return ""

    def member(self, name: str, **options: Any) -> Member:
        return Member(
            self.kafka.bootstrap_servers,
            self.group,
            [self.topic],
            zookeeper=self.kafka.zookeeper_connect,
            coordination="zookeeper",
            consumer_id=name,
            zookeeper_session_timeout_ms=_SESSION_MS,
            rebalance_backoff_ms=100,
            rebalance_max_retries=50,
            auto_commit_interval_ms=50,
            **options,
        )

    def watch_offsets(self) -> None:
        """Record the committed offsets from now on."""
        path = f"/consumers/{self.group}/offsets/{self.topic}/0"

        def changed(content: bytes | None, _stat: object) -> None:
            if content is not None:
                self.offsets.append(int(content))

        nodes: Any = self.nodes  # whose stub lacks kazoo's recipes
        nodes.DataWatch(path, changed)

    def _send(self) -> None:
        with Producer(self.kafka.bootstrap_servers) as producer:
            while not self._ends.wait(0.01):
                producer.send(self.topic, b"%d" % self.sent).result(30)
                self.sent += 1


@pytest.fixture
def flow(zookeeper_kafka: ZooKeeperKafka, new_name: NewName) -> Iterator[Flow]:
    topic, group = zookeeper_kafka.create_topic(new_name()), new_name()
    with connected(zookeeper_kafka.zookeeper_connect) as nodes:
        flow = Flow(zookeeper_kafka, nodes, topic, group)
        flow.start()
        yield flow
        flow.stop()


def test_a_process_that_was_stopped_beyond_its_session_stops_reading_and_moves_no_offset_back(
    flow: Flow,
) -> None:
    with flow.member("a", commit_each=True) as stopped, flow.member("b") as other:
        stopped.wait_messages(20)
        flow.watch_offsets()
        wait_until(lambda: len(flow.nodes.get_children(f"/consumers/{flow.group}/ids")) == 2, 60, "a group")
        stopped.pause()
        wait_until(lambda: flow.owner() == f"{flow.group}_b-0", 60, "the new owner")
        other.wait_messages(50)
        before = len(stopped.messages)
        ahead = max(offset for _, offset in other.messages)
        stopped.resume()
        wait_until(lambda: flow.owner() == f"{flow.group}_a-0", 60, "the return of the first member")
        stopped.wait_messages(before + 20)
        flow.stop()
        wait_until(lambda: flow.offsets[-1] == flow.sent, 60, "the last commit")
        assert flow.offsets == sorted(flow.offsets)
        handed = [offset for _, offset in stopped.messages]
        late = [offset for offset in handed[before:] if offset <= ahead]
        # What it had fetched before it was stopped, and nothing of what came later.
        assert late == list(range(handed[before - 1] + 1, handed[before - 1] + 1 + len(late)))
        both = Counter(handed + [offset for _, offset in other.messages])
        assert set(both) == set(range(flow.sent))
        other.leave()
        stopped.leave()
