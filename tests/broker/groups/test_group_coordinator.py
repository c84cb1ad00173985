"""The groups of one node: how they are loaded, checked and deleted, also if the log cannot be written."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyklient.broker.cluster.offsets_topic import OFFSETS_TOPIC
from pyklient.broker.cluster.topics import Topics
from pyklient.broker.config import BrokerConfig
from pyklient.broker.groups import group_coordinator
from pyklient.broker.groups.committed_offset import CommittedOffset
from pyklient.broker.groups.group_coordinator import GroupCoordinator
from pyklient.broker.groups.member import JoinRequest, JoinResult, SyncRequest, SyncResult
from pyklient.broker.groups.offsets_partition import OffsetsPartition
from pyklient.broker.groups.states import GroupState
from pyklient.broker.log.log_config import LogConfig
from pyklient.broker.log.log_manager import LogManager
from pyklient.broker.log.partition_log import PartitionLog
from pyklient.error_codes import ErrorCode
from pyklient.topic_partition import TopicPartition
from tests.broker.groups.hand_clock import HandClock

CLICKS = {TopicPartition("clicks", 0): CommittedOffset(5, 0, "")}


class Node:
    """A node with the topic clicks and ``__consumer_offsets`` with one partition; ``restart`` opens its data
    again."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._open()

    def _open(self) -> None:
        config = BrokerConfig()
        self.topics = Topics(config, [1])
        self.logs = LogManager(self._directory, max_producer_ids=10)
        for name in ("clicks", OFFSETS_TOPIC):
            topic = self.topics.prepare(name, 1, {})
            self.topics.add(topic)
            self.logs.open(name, 0, LogConfig.of(self.topics.config_values(topic)))
        self.clock = HandClock()
        self.coordinator = GroupCoordinator(config, self.topics, self.logs, self.clock)

    def restart(self) -> GroupCoordinator:
        self.close()
        self._open()
        return self.coordinator

    def join(self, group_id: str) -> str:
        """Add a member to a new group, give the member its assignment, and return the member id."""
        joined: list[JoinResult] = []
        synced: list[SyncResult] = []
        request = JoinRequest(
            member_id="",
            instance_id=None,
            client_id="client",
            client_host="/127.0.0.1",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=[("range", b"")],
            requires_known_member_id=False,
            supports_skipping_assignment=False,
        )
        self.coordinator.join(group_id, request, joined.append)
        self.clock.advance(4)
        [member_id] = [each.member_id for each in joined]
        self.coordinator.sync(group_id, SyncRequest(member_id, None, 1, None, None, {}), synced.append)
        assert [each.error for each in synced] == [ErrorCode.NONE]
        return member_id

    def commit(self, group_id: str) -> None:
        self.coordinator.check_commit(group_id, "", None, -1)
        self.coordinator.commit(group_id, CLICKS)

    def close(self) -> None:
        self.coordinator.close()
        self.logs.close(record_clean_shutdown=False)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    made = Node(tmp_path)
    yield made
    made.close()


def fail(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_groups_are_served_if_the_log_cannot_be_compacted_when_they_are_loaded(
    node: Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(1001):  # so many that the log is compacted
        node.commit("g")
    coordinator = node.restart()
    monkeypatch.setattr(PartitionLog, "compact", fail)
    list(coordinator.load())
    assert "__consumer_offsets-0: the log could not be compacted: [Errno 28]" in caplog.text
    assert not coordinator.loading
    assert coordinator.committed("g") == CLICKS
    list(coordinator.clean_up(0))


def test_groups_are_served_if_the_offsets_of_a_deleted_topic_cannot_be_deleted_when_they_are_loaded(
    node: Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    node.commit("g")
    coordinator = node.restart()
    coordinator.delete_topic("clicks")
    with monkeypatch.context() as patch:
        patch.setattr(PartitionLog, "append_own", fail)
        list(coordinator.load())
    assert "__consumer_offsets-0: the committed offsets of deleted topics could not be deleted" in caplog.text
    assert not coordinator.loading


def test_offsets_of_a_topic_that_was_deleted_before_a_crash_are_not_loaded(node: Node) -> None:
    node.commit("g")
    coordinator = node.restart()
    clicks = node.topics.find("clicks")
    assert clicks is not None
    node.topics.delete(clicks)
    list(coordinator.load())
    node.topics.add(clicks)
    assert coordinator.committed("g") == {}
    coordinator = node.restart()
    list(coordinator.load())
    assert coordinator.committed("g") == {}


def test_offsets_that_could_not_be_deleted_with_their_topic_are_deleted_by_the_next_check(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.commit("g")
    clicks = node.topics.find("clicks")
    assert clicks is not None
    node.topics.delete(clicks)
    with monkeypatch.context() as patch:
        patch.setattr(PartitionLog, "append_own", fail)
        with pytest.raises(OSError, match="No space left"):
            node.coordinator.delete_topic("clicks")
    list(node.coordinator.clean_up(0))
    assert node.coordinator.committed("g") == {}


def test_a_group_loses_its_last_member_although_the_log_cannot_be_written(
    node: Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    retention = BrokerConfig().offsets_retention_minutes * 60_000
    monkeypatch.setattr(group_coordinator, "_now_ms", lambda: 1000)
    member_id = node.join("g")
    node.coordinator.check_commit("g", member_id, None, 1)
    node.coordinator.commit("g", CLICKS)
    monkeypatch.setattr(group_coordinator, "_now_ms", lambda: 1000 + retention)
    with monkeypatch.context() as patch:
        patch.setattr(PartitionLog, "append_own", fail)
        node.clock.advance(11)
    assert [group.state for group in node.coordinator.groups] == [GroupState.EMPTY]
    assert (
        "__consumer_offsets-0: group g lost its last member, but the log could not be written" in caplog.text
    )
    list(node.coordinator.clean_up(2 * retention + 999))
    assert node.coordinator.committed("g") == CLICKS, "the retention time begins when the last member is gone"
    list(node.coordinator.clean_up(2 * retention + 1000))
    assert node.coordinator.groups == []


def test_clients_are_served_while_many_groups_are_checked_for_expired_offsets(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_coordinator, "_GROUPS_PER_STEP", 2)
    for number in range(6):
        node.coordinator.check_commit(f"g{number}", "", None, -1)
    left = [len(node.coordinator.groups) for _ in node.coordinator.clean_up(0)]
    assert left == [4, 2, 0, 0]


def test_groups_that_are_deleted_between_two_steps_of_the_check_for_expired_offsets_are_skipped(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_coordinator, "_GROUPS_PER_STEP", 2)
    monkeypatch.setattr(group_coordinator, "_MAX_IDLE_GROUPS", 6)
    coordinator = node.restart()
    for number in range(6):
        coordinator.check_commit(f"g{number}", "", None, -1)
    steps = coordinator.clean_up(0)
    next(steps)
    for group_id in ("new0", "new1", "new2"):  # the last of them makes seven groups: idle groups are deleted
        coordinator.check_commit(group_id, "", None, -1)
    list(steps)
    assert [group.group_id for group in coordinator.groups] == ["new2"]


def test_no_group_is_served_before_all_groups_of_its_partition_are_restored(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_coordinator, "_GROUPS_PER_STEP", 2)
    for number in range(5):
        node.commit(f"g{number}")
    coordinator = node.restart()
    restored = []
    for _ in coordinator.load():
        assert coordinator.loading
        restored.append(len(coordinator.groups))
    assert restored == [2, 4]
    assert not coordinator.loading
    coordinator.check_loaded("g0")


def test_idle_groups_are_looked_for_only_after_the_number_of_groups_has_doubled(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched = []
    committed = OffsetsPartition.committed

    def counted(partition: OffsetsPartition, group_id: str) -> object:
        searched.append(group_id)
        return committed(partition, group_id)

    monkeypatch.setattr(group_coordinator, "_MAX_IDLE_GROUPS", 10)
    node.restart()
    for number in range(40):
        node.commit(f"g{number}")
    monkeypatch.setattr(OffsetsPartition, "committed", counted)
    list(node.restart().load())
    assert not searched, "groups that are restored are in use"
    for number in range(40, 80):
        node.commit(f"g{number}")
    assert len(searched) == 40
    for number in range(80):
        node.coordinator.check_commit(f"idle{number}", "", None, -1)
    node.coordinator.check_commit("new", "", None, -1)
    assert len(node.coordinator.groups) == 81, "idle groups do not accumulate"
