"""A ZooKeeper group of three that reads from a real broker, and the faults that a test inflicts on it.

Each member is a process, and reaches ZooKeeper through a proxy of its own.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import TracebackType
from typing import Any, Self

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from pyklient import Producer
from tests.servers.process import wait_until
from tests.servers.stalling_proxy import StallingProxy
from tests.servers.zookeeper_kafka import ZooKeeperKafka
from tests.system.members import Member

__all__ = ["FAULTS", "RESTART", "Soak"]

_MEMBERS = ("a", "b", "c")
_PARTITIONS = 6
_ROUND = 0.03
_PATIENCE = 40.0


class Soak:
    """The group, and records that flow into its topic. A context manager."""

    def __init__(self, kafka: ZooKeeperKafka, topic: str, group: str) -> None:
        self.kafka = kafka
        self.nodes: Any = KazooClient(kafka.zookeeper_connect)
        self.root = f"/consumers/{group}"
        self._group, self._topic = group, kafka.create_topic(topic, _PARTITIONS)
        self.members: dict[str, Member] = {}
        self.proxies: dict[str, StallingProxy] = {}
        self._sent = 0
        self._committed: dict[int, list[tuple[float, int]]] = defaultdict(list)
        """For each partition, the committed offsets in their order, and the time at which each was seen."""
        self._blind: dict[str, list[tuple[float, float]]] = defaultdict(list)
        """For each member, the times in which it might not know that it had lost its partitions."""
        self._ends = threading.Event()
        self._flow = threading.Thread(target=self._send)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with self._stack:
            self.nodes.start()
            self._stack.callback(self.nodes.close)
            self._stack.callback(self.nodes.stop)
            self._flow.start()
            self._stack.callback(self._flow.join)
            self._stack.callback(self._ends.set)
            host, _, chroot = self.kafka.zookeeper_connect.partition("/")
            for name in _MEMBERS:
                proxy = self.proxies[name] = self._stack.enter_context(StallingProxy(host))
                self.members[name] = self._stack.enter_context(
                    Member(
                        self.kafka.bootstrap_servers,
                        self._group,
                        [self._topic],
                        zookeeper=f"{proxy.address}/{chroot}",
                        coordination="zookeeper",
                        consumer_id=name,
                        zookeeper_session_timeout_ms=1000,
                        rebalance_backoff_ms=100,
                        rebalance_max_retries=50,
                        auto_commit_interval_ms=50,
                        fetch_max_wait_ms=50,
                    )
                )
            for partition in range(_PARTITIONS):
                self._watch(partition)
            self._stack = self._stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def inflict(self, fault: "Fault", name: str) -> None:
        """Inflict *fault* on the member *name*. Return when all members read and commit again."""
        began = time.monotonic()
        fault(self, name)
        self.wait_until_all_read()
        for each in _MEMBERS if fault is RESTART else [name]:
            if fault in _BLINDING:
                self._blind[each].append((began, time.monotonic()))

    def wait_until_all_read(self) -> None:
        """Return when each member owns its part, and has committed what has been sent until now."""
        wait_until(self._is_whole, _PATIENCE, "a group of three that owns all partitions")
        sent = self._sent
        wait_until(lambda: self._has_committed(sent), _PATIENCE, f"commits of {sent} messages")

    def finish(self) -> None:
        """Stop the records, and let the members read and commit all of them and leave."""
        self._ends.set()
        self._flow.join()
        wait_until(lambda: self._has_committed(self._sent), _PATIENCE, "commits of all messages")
        for member in self.members.values():
            member.leave()

    def problems(self) -> Iterator[str]:
        """Return what went wrong: messages that were skipped, offsets that went back, and messages that were
        handed out although they had been committed before."""
        handed = {place for member in self.members.values() for place in member.messages}
        for partition in range(_PARTITIONS):
            skipped = [offset for offset in range(self._sent) if (partition, offset) not in handed]
            if skipped:
                yield f"partition {partition}: {len(skipped)} messages were skipped, first {skipped[0]}"
            offsets = [offset for _, offset in self._committed[partition]]
            if offsets != sorted(offsets):
                yield f"partition {partition}: offsets went back: {offsets}"
        for name, member in self.members.items():
            for event in member.events:
                if "offset" in event and not self._is_blind(name, event["at"]):
                    committed = self._committed_before(event["partition"], event["at"])
                    if event["offset"] < committed:
                        yield f"member {name}: {event}, although {committed} had been committed"

    def owners(self) -> list[str]:
        """Return the owner of each partition that has one."""
        found = []
        for partition in range(_PARTITIONS):
            with suppress(NoNodeError):
                found.append(self.nodes.get(f"{self.root}/owners/{self._topic}/{partition}")[0].decode())
        return found

    def is_member(self, name: str) -> bool:
        """Return True if the member *name* has its node."""
        return self.nodes.exists(self.node_of(name)) is not None

    def node_of(self, name: str) -> str:
        """Return the path of the node of the member *name*."""
        return f"{self.root}/ids/{self._group}_{name}"

    @contextmanager
    def expecting_complaint(self, name: str) -> Iterator[None]:
        """Let the caller garble the node of *name*. Return when a member logs that it cannot understand the
        node."""
        text = f"{self.node_of(name)} cannot be understood"

        def count() -> int:
            return sum(member.log.count(text) for member in self.members.values())

        before = count()
        yield
        wait_until(lambda: count() > before, _PATIENCE, f"a message that {text}")

    def _is_whole(self) -> bool:
        expected = sorted(f"{self._group}_{name}-0" for name in _MEMBERS for _ in range(_PARTITIONS // 3))
        return sorted(self.owners()) == expected and all(map(self.is_member, _MEMBERS))

    def _has_committed(self, count: int) -> bool:
        return all(
            self._committed[partition] and self._committed[partition][-1][1] >= count
            for partition in range(_PARTITIONS)
        )

    def _committed_before(self, partition: int, time: float) -> int:
        return max((offset for seen, offset in self._committed[partition] if seen < time), default=0)

    def _is_blind(self, name: str, time: float) -> bool:
        return any(began <= time <= ended for began, ended in self._blind[name])

    def _watch(self, partition: int) -> None:
        def changed(content: bytes | None, _stat: object) -> None:
            if content is not None:
                self._committed[partition].append((time.monotonic(), int(content)))

        self.nodes.DataWatch(f"{self.root}/offsets/{self._topic}/{partition}", changed)

    def _send(self) -> None:
        with Producer(self.kafka.bootstrap_servers, enable_idempotence=False) as producer:
            while not self._ends.wait(_ROUND):
                sent = [producer.send(self._topic, b"x", partition=each) for each in range(_PARTITIONS)]
                for each in sent:
                    each.result(_PATIENCE)
                self._sent += 1


def let_session_expire(soak: Soak, name: str) -> None:
    """Stall the member's connection to ZooKeeper until its session has ended."""
    soak.proxies[name].stall()
    wait_until(lambda: not soak.is_member(name), _PATIENCE, f"the end of the session of {name}")
    soak.proxies[name].resume()


def stop_process(soak: Soak, name: str) -> None:
    """Stop the member's process until its session has ended."""
    soak.members[name].pause()
    wait_until(lambda: not soak.is_member(name), _PATIENCE, f"the end of the session of {name}")
    soak.members[name].resume()


def cut_connection(soak: Soak, name: str) -> None:
    """Close the member's connection to ZooKeeper. It may connect again at once."""
    soak.proxies[name].refuse()
    soak.proxies[name].resume()


def garble_node(soak: Soak, name: str) -> None:
    """Write garbage into the member's node, and delete the node when a member has complained."""

    def is_garbled() -> bool:
        with suppress(NoNodeError):  # after a restart, a session may end late, and its member joins again
            soak.nodes.set(soak.node_of(name), b"garbage")
            return True
        return False

    with soak.expecting_complaint(name):
        wait_until(is_garbled, _PATIENCE, f"garbage in the node of {name}")
    with suppress(NoNodeError):
        soak.nodes.delete(soak.node_of(name))


def add_garbage(soak: Soak, _name: str) -> None:
    """Add the node of a member that is none, and delete the node when a member has complained."""
    with soak.expecting_complaint("nobody"):
        soak.nodes.create(soak.node_of("nobody"), b"garbage")
    soak.nodes.delete(soak.node_of("nobody"))


def restart_zookeeper(soak: Soak, _name: str) -> None:
    """End ZooKeeper by SIGKILL, and start it again with its data."""
    soak.kafka.zookeeper.process.kill()
    soak.kafka.zookeeper.start()


Fault = Callable[[Soak, str], None]

FAULTS: tuple[Fault, ...] = (let_session_expire, stop_process, cut_connection, garble_node, add_garbage)
"""All faults that leave ZooKeeper running."""

RESTART: Fault = restart_zookeeper

_BLINDING = {let_session_expire, stop_process, restart_zookeeper}
"""The faults after which a member may not know yet that its session has ended. Meanwhile it hands out
messages that it has fetched, which other members may have committed."""
