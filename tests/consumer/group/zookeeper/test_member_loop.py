"""The thread of a member of a ZooKeeper group, on nodes in memory."""

import logging
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

from pyklient import RebalanceFailedError, TopicPartition
from pyklient.config import ConsumerConfig
from pyklient.consumer.group.membership_thread import MembershipThread
from pyklient.consumer.group.subscription import Subscription
from pyklient.consumer.group.zookeeper.zookeeper_member import ZooKeeperMember
from pyklient.consumer.group.zookeeper.zookeeper_member_loop import ZooKeeperMemberLoop
from pyklient.consumer.owned_partitions import MemberIdentity
from pyklient.errors import AuthenticationError, KafkaTimeoutError, RegistryConnectionError
from pyklient.registry.requests import RegistryDialogue
from pyklient.registry.session_event import SessionEvent
from tests.consumer.feed import wait_for
from tests.consumer.group.zookeeper.nodes import Nodes
from tests.consumer.group.zookeeper.test_rebalance import OWNERS, cluster

T = TypeVar("T")


class Session:
    """A session with *nodes*. Members of one test have a name each."""

    session_id = 1

    def __init__(self, nodes: Nodes, name: str) -> None:
        self.nodes = nodes
        self.name = name

    def unreachable(self) -> None:
        """Return None: the connection is never lost."""

    def play(
        self,
        dialogue: RegistryDialogue[T],
        timeout: float,
        on_change: Callable[[], None] | None = None,
        *,
        per_answer: bool = False,
    ) -> T:
        return self.nodes.play(dialogue, self.name)


class NoSession:
    """A session that never begins, because ZooKeeper does not answer."""

    session_id = None

    def __init__(self) -> None:
        self.waits = 0

    def play(self, *_: Any, **__: Any) -> None:
        self.waits += 1
        raise RegistryConnectionError("ZooKeeper could not be reached")


class Handler:
    """An assignment handler that records its calls, and raises *failures* one after the other."""

    next_commit_at = math.inf

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.failures: list[Exception] = []
        self.identities: list[MemberIdentity] = []

    def assigned(
        self,
        partitions: Collection[TopicPartition],
        identity: MemberIdentity,
        *,
        stream_numbers: Mapping[TopicPartition, int],
    ) -> None:
        if self.failures:
            raise self.failures.pop()
        self.calls.append(("assigned", {each.partition: stream_numbers[each] for each in partitions}))
        self.identities.append(identity)

    def revoked(self, partitions: Collection[TopicPartition], timeout: float) -> None:
        self.calls.append(("revoked", [each.partition for each in partitions]))

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        self.calls.append(("lost", [each.partition for each in partitions]))

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


class Client:
    """A client whose metadata has no topic with an error."""

    def __init__(self) -> None:
        self.metadata = self

    def topic_errors(self, topics: Collection[str]) -> dict[str, Any]:
        return {}


@contextmanager
def running(
    nodes: Nodes, handler: Handler, streams: int = 1, attempts: int = 2, session: Any = None
) -> Iterator[ZooKeeperMemberLoop]:
    """Run a member until the block ends."""
    config = ConsumerConfig.from_options(
        {"group_id": "g", "rebalance_max_retries": attempts, "rebalance_backoff_ms": 10}
    )
    member = ZooKeeperMember("g", "g_a", "range", Subscription({"t": streams}))
    client: Any = Client()
    registry: Any = session or Session(nodes, "mine")
    stub: Any = handler
    thread = MembershipThread("member")
    loop = ZooKeeperMemberLoop(client, registry, config, member, stub, thread)
    thread.start(loop.run)
    try:
        yield loop
    finally:
        loop.close()
        thread.join(30)
        assert not thread.running


def test_the_streams_of_a_member_get_what_their_threads_own() -> None:
    handler = Handler()
    with running(cluster(t=3), handler, streams=2) as loop:
        loop._thread.joined.result(30)
    assert handler.calls == [("revoked", []), ("assigned", {0: 0, 1: 0, 2: 1}), ("revoked", [0, 1, 2])]


def test_a_change_that_leaves_the_assignment_as_it_is_revokes_nothing() -> None:
    nodes, handler = cluster(t=1), Handler()
    with running(nodes, handler) as loop:
        loop._thread.joined.result(30)
        asked = len(nodes.asked)
        nodes.found["/brokers/ids/7"] = (b"{}", "broker")
        loop.changed()
        wait_for(lambda: len(nodes.asked) > asked + 3, "another look at the group")
        assert handler.calls == [("revoked", []), ("assigned", {0: 0})]


def warnings_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_topic_that_does_not_exist_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    nodes, handler = cluster(), Handler()
    with running(nodes, handler) as loop:
        loop._thread.joined.result(30)
        (warning,) = warnings_in(caplog)
        assert warning.startswith(
            "group g subscribes to topics that do not exist yet: t; with auto_offset_reset"
        )
        asked = len(nodes.asked)
        nodes.found["/brokers/ids/7"] = (b"{}", "broker")
        loop.changed()
        wait_for(lambda: len(nodes.asked) > asked + 3, "another look at the group")
        nodes.found.update(cluster(t=1).found)
        loop.changed()
        wait_for(lambda: ("assigned", {0: 0}) in handler.calls, "the partition of the new topic")
    assert len(warnings_in(caplog)) == 1


def test_a_partition_that_a_member_gets_again_begins_a_generation_that_does_not_follow() -> None:
    nodes, handler = cluster(t=1), Handler()
    with running(nodes, handler) as loop:
        loop._thread.joined.result(30)
        nodes.found["/brokers/topics/t"] = cluster(t=2).found["/brokers/topics/t"]
        loop.changed()
        wait_for(lambda: len(handler.identities) == 2, "the next assignment")
    first, second = handler.identities
    assert second.generation > first.generation + 1
    assert second.member_id == "g_a"


def test_partitions_of_a_session_that_has_expired_are_lost_before_they_are_revoked() -> None:
    nodes, handler = cluster(t=1), Handler()
    with running(nodes, handler) as loop:
        loop._thread.joined.result(30)
        nodes.expire("mine")
        loop.session_changed(SessionEvent.EXPIRED)
        wait_for(lambda: len(handler.identities) == 2, "the next assignment")
        assert handler.calls[2:] == [
            ("lost", [0]),
            ("lost", [0]),
            ("revoked", [0]),
            ("revoked", []),
            ("assigned", {0: 0}),
        ]
        assert nodes.owners("g") == {"t/0": "g_a-0"}


def test_a_member_that_cannot_fetch_offsets_gives_its_nodes_back_and_tries_again() -> None:
    nodes, handler = cluster(t=1), Handler()
    handler.failures = [KafkaTimeoutError("no coordinator")]
    with running(nodes, handler) as loop:
        loop._thread.joined.result(30)
    assert handler.calls[-2:] == [("assigned", {0: 0}), ("revoked", [0])]


def test_an_error_that_another_attempt_cannot_end_is_raised_at_once() -> None:
    nodes, handler = cluster(t=1), Handler()
    handler.failures = [AuthenticationError("no permission"), AuthenticationError("no permission")]
    with (
        running(nodes, handler, attempts=4) as loop,
        pytest.raises(AuthenticationError, match="no permission"),
    ):
        loop._thread.joined.result(30)
    assert len(handler.failures) == 1
    assert nodes.owners("g") == {}


def test_row_20_the_first_failure_is_raised_with_its_cause_and_no_node_is_left() -> None:
    nodes, handler = cluster(t=2), Handler()
    nodes.found[OWNERS + "1"] = (b"g_b-0", "other")
    with running(nodes, handler) as loop, pytest.raises(RebalanceFailedError, match="2 attempts"):
        loop._thread.joined.result(30)
    assert [path for path, (_, session) in nodes.found.items() if session == "mine"] == []


def test_a_member_waits_for_a_zookeeper_that_does_not_answer_only_once() -> None:
    session = NoSession()
    with running(cluster(t=1), Handler(), session=session) as loop, pytest.raises(RegistryConnectionError):
        loop._thread.joined.result(30)
    assert session.waits == 1


def test_a_later_failure_ends_with_the_next_change() -> None:
    nodes, handler = cluster(t=1), Handler()
    with running(nodes, handler) as loop:
        loop._thread.joined.result(30)
        nodes.found["/brokers/topics/t"] = cluster(t=2).found["/brokers/topics/t"]
        nodes.found[OWNERS + "1"] = (b"g_b-0", "other")
        loop.changed()
        wait_for(lambda: handler.calls.count(("revoked", [])) >= 2, "attempts that fail")
        nodes.expire("other")
        loop.changed()
        wait_for(lambda: ("assigned", {0: 0, 1: 0}) in handler.calls, "the assignment")


def test_a_failure_that_nobody_expected_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ValueError("no such path")

    monkeypatch.setattr(Session, "play", fail)
    with running(cluster(t=1), Handler()) as loop, pytest.raises(ValueError, match="no such path"):
        loop._thread.joined.result(30)
