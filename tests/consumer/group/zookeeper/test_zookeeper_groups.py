"""Members of groups that ZooKeeper coordinates."""

import logging
import threading
import time
from typing import Any, cast

import pytest

from pyklient import (
    ClosedError,
    ConfigurationError,
    ConsumerConnector,
    ConsumerTimeout,
    KafkaStream,
    MessageStreamsExistError,
    RebalanceFailedError,
    TopicPartition,
)
from pyklient.errors import KafkaError, NodeContentError, RegistryError
from tests.consumer.feed import wait_for
from tests.consumer.group.test_control_in_listener import OnAssignment
from tests.consumer.group.test_groups import Listener, Reader, spread
from tests.consumer.group.zookeeper.planted import PlantedCluster
from tests.consumer.shutdown_order import record_shutdown

OWNER = "/consumers/{}/owners/{}/{}"


def values(stream: KafkaStream, count: int) -> list[str]:
    """Return the next *count* values."""
    found: list[str] = []
    for message in stream:
        assert message.value is not None
        found.append(message.value.decode())
        if len(found) == count:
            break
    return found


def test_row_3_a_stream_without_partitions_waits(cluster: PlantedCluster) -> None:
    topic = cluster.topic(2)
    spread(cluster.feed, topic, 2, "a")
    with cluster.connect("g", "c", consumer_timeout_ms=300) as connector:
        streams = connector.create_message_streams({topic: 3})[topic]
        cluster.wait_owned("g", topic, "c-0", "c-1")
        assert [values(stream, 1) for stream in streams[:2]] == [["a0"], ["a1"]]
        with pytest.raises(ConsumerTimeout):
            next(iter(streams[2]))


def test_rows_1_and_4_the_ith_stream_of_a_topic_reads_what_the_ith_thread_owns(
    cluster: PlantedCluster,
) -> None:
    topic = cluster.topic(11)
    spread(cluster.feed, topic, 11, "a")
    with cluster.connect("g", "c") as connector:
        streams = connector.create_message_streams({topic: 11})[topic]
        assert [values(stream, 1) for stream in streams] == [
            *(["a0"], ["a1"]),
            *([f"a{partition}"] for partition in range(3, 11)),
            ["a2"],
        ]


def test_row_7_streams_are_made_once(cluster: PlantedCluster) -> None:
    topic = cluster.topic()
    with cluster.connect("g", "c") as connector:
        connector.create_message_streams({topic: 1})
        with pytest.raises(MessageStreamsExistError):
            connector.stream(topic)


def test_row_13_a_timeout_ends_the_loop_and_the_next_loop_goes_on(cluster: PlantedCluster) -> None:
    topic = cluster.topic()
    with cluster.connect("g", "c", consumer_timeout_ms=200) as connector:
        stream = connector.stream(topic)
        for text in ("a", "b"):
            began = time.monotonic()
            with pytest.raises(ConsumerTimeout):
                next(iter(stream))
            assert 0.2 <= time.monotonic() - began < 20
            cluster.feed.send(topic, [text])
            assert values(stream, 1) == [text]


def test_rows_14_and_15_the_next_message_to_read_is_committed(cluster: PlantedCluster) -> None:
    topic = cluster.topic(1, "a", "b", "c")
    with cluster.connect("g", "c", enable_auto_commit=False) as connector:
        stream = connector.stream(topic)
        wait_for(lambda: stream._core.queue.items, "fetched messages")  # a message waits; none is handed out
        connector.commit_offsets()
        assert cluster.offsets("g", topic) in ({}, {0: 0})
        assert values(stream, 1) == ["a"]
        connector.commit_offsets()
        assert cluster.offsets("g", topic) == {0: 1}
        assert values(stream, 1) == ["b"]
        connector.commit_offsets()
        assert cluster.offsets("g", topic) == {0: 2}


def test_row_16_shutdown_ends_streams_commits_removes_the_nodes_and_may_be_called_again(
    cluster: PlantedCluster,
) -> None:
    topic = cluster.topic(1, "a", "b")
    connector = cluster.connect("g", "c", auto_commit_interval_ms=60_000)
    reader = Reader(connector.stream(topic))
    wait_for(lambda: len(reader.seen) == 2, "two messages")
    assert cluster.members("g") == ["g_c"]
    connector.shutdown()
    reader.join()
    assert cluster.offsets("g", topic) == {0: 2}
    assert cluster.members("g") == []
    assert cluster.owners("g", topic) == {}
    connector.shutdown()
    with pytest.raises(ClosedError):
        connector.commit_offsets()


def test_a_member_that_shuts_down_commits_before_its_session_ends_and_deletes_no_node_by_itself(
    cluster: PlantedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a session deletes all its nodes in one transaction of ZooKeeper."""
    topic = cluster.topic(2, "a")
    with cluster.connect("g", "c", auto_commit_interval_ms=60_000) as connector:
        reader = Reader(connector.stream(topic))
        wait_for(lambda: reader.seen, "a message")
        steps = record_shutdown(monkeypatch)
        connector.shutdown()
        monkeypatch.undo()
        reader.join()
    paths = (f"/consumers/g/offsets/{topic}/0", "/consumers/g/ids", f"/consumers/g/owners/{topic}")
    offset, members, owners = [cast(Any, cluster.nodes.get(path)[1]) for path in paths]
    assert cluster.offsets("g", topic)[0] == 1
    assert offset.mzxid < members.pzxid == owners.pzxid
    ends = [step for step in steps if not step.endswith("Request")]
    assert list(dict.fromkeys(ends)) == [
        "commits in the background end",
        "fetchers end",
        "streams end",
        "connections and session close",
    ]


def test_row_19_two_members_own_one_partition_each_and_one_takes_over(cluster: PlantedCluster) -> None:
    topic = cluster.topic(2)
    with cluster.connect("g", "a") as one:
        first = Reader(one.stream(topic))
        cluster.wait_owned("g", topic, "a-0", "a-0")
        spread(cluster.feed, topic, 2, "x")
        wait_for(lambda: len(first.seen) == 2, "the first two")
        two = cluster.connect("g", "b")
        second = Reader(two.stream(topic))
        cluster.wait_owned("g", topic, "a-0", "b-0")
        spread(cluster.feed, topic, 2, "y")
        wait_for(lambda: len(first.seen) + len(second.seen) == 4, "the next two")
        two.close()
        cluster.wait_owned("g", topic, "a-0", "a-0")
        spread(cluster.feed, topic, 2, "z")
        wait_for(lambda: len(first.seen) + len(second.seen) == 6, "the last two")
    assert second.partitions == {1}
    handed = [(each.partition, each.offset) for each in first.seen + second.seen]
    assert sorted(handed) == [(partition, offset) for partition in range(2) for offset in range(3)]
    assert cluster.offsets("g", topic) == {0: 3, 1: 3}


def test_row_20_a_foreign_owner_makes_the_first_rebalance_fail_after_all_attempts(
    cluster: PlantedCluster,
) -> None:
    topic = cluster.topic(2)
    foreign = OWNER.format("g", topic, 1)
    cluster.nodes.create(foreign, b"g_other-0", ephemeral=True, makepath=True)
    connector = cluster.connect("g", "c", rebalance_max_retries=3, rebalance_backoff_ms=200)
    began = time.monotonic()
    with pytest.raises(RebalanceFailedError, match="3 attempts"):
        connector.stream(topic)
    assert time.monotonic() - began >= 0.4
    assert cluster.owners("g", topic) == {1: "g_other-0"}
    assert cluster.members("g") == []


def test_row_20_a_later_failure_is_logged_and_the_next_change_is_waited_for(
    cluster: PlantedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    topic = cluster.topic(1)
    with cluster.connect("g", "c", rebalance_max_retries=2) as connector:
        reader = Reader(connector.stream(topic))
        cluster.nodes.create(OWNER.format("g", topic, 1), b"g_other-0", ephemeral=True)
        with caplog.at_level(logging.ERROR, "pyklient.consumer"):
            cluster.grow(topic, 2)
            wait_for(lambda: "reads nothing and tries again" in caplog.text, "the failure")
        assert cluster.owners("g", topic) == {1: "g_other-0"}
        cluster.nodes.delete_async(OWNER.format("g", topic, 1)).get(timeout=30)
        cluster.wait_owned("g", topic, "c-0", "c-0")
        spread(cluster.feed, topic, 2, "a")
        wait_for(lambda: len(reader.seen) == 2, "both messages")


def test_row_21_an_owner_node_with_the_same_content_counts_as_success(cluster: PlantedCluster) -> None:
    topic = cluster.topic(1, "a")
    cluster.nodes.create(OWNER.format("g", topic, 0), b"g_c-0", ephemeral=True, makepath=True)
    with cluster.connect("g", "c", rebalance_max_retries=1) as connector:
        assert values(connector.stream(topic), 1) == ["a"]


def test_new_partitions_are_read(cluster: PlantedCluster) -> None:
    topic = cluster.topic(1)
    with cluster.connect("g", "c") as connector:
        stream = connector.stream(topic)
        cluster.grow(topic, 3)
        cluster.wait_owned("g", topic, "c-0", "c-0", "c-0")
        cluster.feed.send(topic, ["a"], 2)
        assert values(stream, 1) == ["a"]


def test_a_change_that_leaves_the_assignment_as_it_is_interrupts_nothing(cluster: PlantedCluster) -> None:
    topic = cluster.topic(1)
    listener = Listener()
    with cluster.connect("g", "c") as connector:
        connector.set_rebalance_listener(listener)
        connector.stream(topic)
        assert listener.told == [{}, {topic: {0: "0"}}]
        cluster.nodes.create("/brokers/ids/7", cluster.nodes.get("/brokers/ids/0")[0])
        with cluster.connect("g", "d") as other:
            other.stream(topic)
            cluster.wait_owned("g", topic, "c-0")
        assert len(listener.told) == 2
        with pytest.raises(MessageStreamsExistError):
            connector.set_rebalance_listener(listener)


def test_the_listener_may_commit_before_partitions_are_released(cluster: PlantedCluster) -> None:
    topic = cluster.topic(2)
    spread(cluster.feed, topic, 2, "x")
    connector = cluster.connect("g", "a", enable_auto_commit=False)

    class Committing(Listener):
        def before_releasing_partitions(self, owned: dict[str, set[int]]) -> None:
            super().before_releasing_partitions(owned)
            if len(self.told) == 3:
                connector.commit_offsets({TopicPartition(topic, 1): 1})

    listener = Committing()
    with connector:
        connector.set_rebalance_listener(listener)
        connector.stream(topic)
        with cluster.connect("g", "b") as other:
            other.stream(topic)
            cluster.wait_owned("g", topic, "a-0", "b-0")
    assert listener.told[:4] == [{}, {topic: {0: "0", 1: "0"}}, {topic: {0, 1}}, {topic: {0: "0"}}]
    assert cluster.offsets("g", topic)[1] == 1


def test_a_position_from_before_a_rebalance_is_not_committed_after_it(cluster: PlantedCluster) -> None:
    topic = cluster.topic(2, "a", "b")
    with cluster.connect("g", "a", enable_auto_commit=False) as connector:
        stream = connector.stream(topic)
        assert values(stream, 2) == ["a", "b"]
        with cluster.connect("g", "b") as other:
            other.stream(topic)
            cluster.wait_owned("g", topic, "a-0", "b-0")
            # Before the assignment begins, a commit of these messages may raise CommitError.
            wait_for(lambda: not connector._ownership.rebalancing, "the assignment to begin")
            connector.commit_offsets()
            assert cluster.offsets("g", topic).get(0, 0) == 0
            assert values(stream, 2) == ["a", "b"]
            connector.commit_offsets()
            assert cluster.offsets("g", topic)[0] == 2


def test_offsets_may_be_kept_in_kafka(cluster: PlantedCluster) -> None:
    topic, group = cluster.topic(1, "a", "b"), cluster.feed.name()
    options = {"offsets_storage": "kafka", "dual_commit_enabled": False}
    with cluster.connect(group, "c", **options) as connector:
        assert values(connector.stream(topic), 1) == ["a"]
    assert cluster.feed.committed(group, topic) == [1]
    assert cluster.offsets(group, topic) == {}
    with cluster.connect(group, "c", **options) as connector:
        assert values(connector.stream(topic), 1) == ["b"]


def test_a_consumer_id_is_given_to_one_member_at_a_time(cluster: PlantedCluster) -> None:
    topic = cluster.topic()
    with cluster.connect("g", "c") as connector:
        connector.stream(topic)
        second = cluster.connect("g", "c", zookeeper_session_timeout_ms=1000)
        with pytest.raises(RegistryError, match="g_c already"):
            second.stream(topic)
        cluster.wait_owned("g", topic, "c-0")
    with cluster.connect("g", "c") as connector:
        connector.stream(topic)


def test_a_member_whose_node_is_deleted_creates_it_again(cluster: PlantedCluster) -> None:
    topic = cluster.topic()
    with cluster.connect("g", "c") as connector:
        connector.stream(topic)
        cluster.nodes.delete_async("/consumers/g/ids/g_c").get(timeout=30)
        wait_for(lambda: cluster.members("g") == ["g_c"], "the node of the member")
        cluster.wait_owned("g", topic, "c-0")


def test_garbage_in_the_node_of_a_member_is_named_and_the_group_recovers_without_it(
    cluster: PlantedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    topic = cluster.topic(1, "a")
    cluster.nodes.create("/consumers/g/ids/g_garbage", b"{", makepath=True)
    failing = cluster.connect("g", "c", rebalance_max_retries=2)
    with pytest.raises(RebalanceFailedError, match="/consumers/g/ids/g_garbage") as raised:
        failing.stream(topic)
    assert isinstance(raised.value.__cause__, NodeContentError)
    with cluster.connect("g", "c", rebalance_max_retries=1000) as connector:
        late = threading.Timer(
            0.3, lambda: cluster.nodes.delete_async("/consumers/g/ids/g_garbage").get(timeout=30)
        )
        late.start()
        assert values(connector.stream(topic), 1) == ["a"]
        late.join()


def test_a_chroot_that_does_not_exist_is_an_error_that_names_it(cluster: PlantedCluster) -> None:
    address = cluster.address.rpartition("/")[0] + "/nowhere"
    connector = cluster.connect("g", "c", zookeeper=address)
    with pytest.raises(RegistryError, match="/nowhere"):
        connector.stream("t")


def test_a_group_without_a_broker_waits_for_one(
    cluster: PlantedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    topic = cluster.topic(1, "a")
    cluster.nodes.delete_async("/brokers/ids/0").get(timeout=30)
    with cluster.connect("g", "c") as connector, caplog.at_level(logging.WARNING, "pyklient.consumer"):
        stream = connector.stream(topic)
        assert "no broker" in caplog.text
        assert cluster.owners("g", topic) == {}
        cluster.add_broker()
        assert values(stream, 1) == ["a"]


def test_zookeeper_that_cannot_be_reached_is_an_error_when_streams_are_made() -> None:
    connector = ConsumerConnector(
        zookeeper="127.0.0.1:1/kafka",
        coordination="zookeeper",
        group_id="g",
        zookeeper_session_timeout_ms=500,
        zookeeper_connection_timeout_ms=500,
    )
    began = time.monotonic()
    with pytest.raises(KafkaError, match=r"127\.0\.0\.1:1"):
        connector.stream("t")
    assert time.monotonic() - began < 30


def test_coordination_by_zookeeper_needs_its_address() -> None:
    with pytest.raises(ConfigurationError, match="zookeeper='host:port/chroot'"):
        ConsumerConnector(coordination="zookeeper", group_id="g")


def test_a_listener_seeks_and_learns_positions_before_anything_is_read(cluster: PlantedCluster) -> None:
    topic = cluster.topic()
    cluster.feed.send(topic, list("abcdef"))
    positions: list[int] = []

    def control(stream: KafkaStream, partition: TopicPartition) -> None:
        positions.append(stream.position(partition))
        stream.seek(partition, 4)
        positions.append(stream.position(partition))

    with cluster.connect("g", "c") as connector:
        listener = OnAssignment(connector, control)
        assert values(connector.stream(topic), 2) == ["e", "f"]
        assert (listener.errors, positions) == ([], [0, 4])
