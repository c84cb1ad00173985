"""Members of a ZooKeeper group when nodes contain garbage: errors name the node, and the group recovers when
the node is repaired or deleted."""

import logging
import threading
from functools import partial
from typing import Any

import pytest

from pyklient import RebalanceFailedError
from tests.consumer.feed import wait_for
from tests.consumer.group.test_groups import Reader, spread
from tests.consumer.group.zookeeper.planted import PlantedCluster

QUICK: dict[str, Any] = {"rebalance_max_retries": 2, "rebalance_backoff_ms": 50}
MEMBERS = (
    b"\xff\xfe",
    b"[1]",
    b'{"version":1,"subscription":{"t":0},"pattern":"static"}',
    b'{"version":1,"subscription":{"t":1000000000},"pattern":"static"}',
    b'{"version":1,"subscription":{"\\ud800":1},"pattern":"static"}',
    b'{"version":1,"subscription":{"":1},"pattern":"static"}',
    b'{"version":1,"subscription":{"a/../b":1},"pattern":"static"}',
    b'{"version":1,"subscription":{"a\\u0000b":1},"pattern":"static"}',
    b'{"version":1,"subscription":{"(":1},"pattern":"white_list"}',
    b'{"version":1,"subscription":{"a":1},"pattern":"static","timestamp":[]}',
)


def put(cluster: PlantedCluster, path: str, content: bytes) -> None:
    nodes: Any = cluster.nodes
    nodes.ensure_path(path)
    nodes.set(path, content)


def reads(reader: Reader, text: str) -> bool:
    return text in texts(reader)


def texts(reader: Reader) -> list[str]:
    return [message.value.decode() for message in reader.seen]


def test_a_member_reads_on_whatever_the_node_of_another_member_contains(
    cluster: PlantedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    topic = cluster.topic()
    path = "/consumers/g/ids/g_garbage"
    with cluster.connect("g", "c", **QUICK) as connector, caplog.at_level(logging.INFO):
        reader = Reader(connector.stream(topic))
        for number, content in enumerate(MEMBERS):
            caplog.clear()
            put(cluster, path, content)
            wait_for(lambda: "reads its partitions as before and tries again" in caplog.text, repr(content))
            assert f"{path} cannot be understood" in caplog.text
            cluster.feed.send(topic, [str(number)])
            wait_for(partial(reads, reader, str(number)), "a message")
        cluster.nodes.delete_async(path).get(timeout=30)
        with cluster.connect("g", "d", **QUICK) as other:
            other.stream(topic)
            cluster.wait_owned("g", topic, "c-0")


def test_garbage_in_the_node_of_a_topic_is_named_and_the_topic_is_read_after_the_repair(
    cluster: PlantedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    topic = cluster.topic(1)
    path = f"/brokers/topics/{topic}"
    with cluster.connect("g", "c", **QUICK) as connector, caplog.at_level(logging.ERROR):
        reader = Reader(connector.stream(topic))
        put(cluster, path, b'{"version":1,"partitions":{"x":[0]}}')
        wait_for(lambda: f"{path} cannot be understood" in caplog.text, "the error")
        cluster.feed.send(topic, ["a"])
        wait_for(lambda: texts(reader) == ["a"], "the message")
        cluster.grow(topic, 2)
        cluster.wait_owned("g", topic, "c-0", "c-0")
        cluster.feed.send(topic, ["b"], 1)
        wait_for(lambda: texts(reader) == ["a", "b"], "the message of the new partition")


def test_an_offset_that_cannot_be_read_is_named_and_the_group_goes_on_after_the_repair(
    cluster: PlantedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    topic = cluster.topic(2)
    spread(cluster.feed, topic, 2, "a")
    path = f"/consumers/g/offsets/{topic}/1"
    with cluster.connect("g", "c", **QUICK) as connector:
        reader = Reader(connector.stream(topic))
        wait_for(lambda: len(reader.seen) == 2, "both messages")
        connector.commit_offsets()
        put(cluster, path, b"not a number")
        with pytest.raises(RebalanceFailedError, match=f"node {path} cannot be understood"):
            cluster.connect("g", "d", **QUICK).stream(topic)
        wait_for(lambda: "reads nothing and tries again" in caplog.text, "the failure")
        put(cluster, path, b"1")  # which no watch reports
        cluster.wait_owned("g", topic, "c-0", "c-0")
        spread(cluster.feed, topic, 2, "b")
        wait_for(lambda: len(reader.seen) == 4, "the next two messages")
    assert cluster.offsets("g", topic) == {0: 2, 1: 2}


def test_an_owner_node_that_no_session_holds_is_named_and_the_group_goes_on_without_it(
    cluster: PlantedCluster,
) -> None:
    topic = cluster.topic(1, "a")
    path = f"/consumers/g/owners/{topic}/0"
    put(cluster, path, b"\xff{")
    with pytest.raises(RebalanceFailedError, match=f"{path} .*delete"):
        cluster.connect("g", "c", **QUICK).stream(topic)
    with cluster.connect("g", "c", rebalance_max_retries=1000) as connector:
        late = threading.Timer(0.3, lambda: cluster.nodes.delete_async(path).get(timeout=30))
        late.start()
        reader = Reader(connector.stream(topic))
        wait_for(lambda: texts(reader) == ["a"], "the message")
        late.join()


def test_garbage_in_the_nodes_of_brokers_does_not_stop_a_member(cluster: PlantedCluster) -> None:
    topic = cluster.topic(1)
    good = cluster.nodes.get("/brokers/ids/0")[0]
    with cluster.connect("g", "c", **QUICK) as connector:
        reader = Reader(connector.stream(topic))
        put(cluster, "/brokers/ids/0", b"{")
        put(cluster, "/brokers/ids/garbage", b"")
        put(cluster, "/controller", b"nobody")
        cluster.feed.send(topic, ["a"])
        wait_for(lambda: texts(reader) == ["a"], "the message")
        put(cluster, "/brokers/ids/0", good)
        with cluster.connect("g", "d", bootstrap_servers="127.0.0.1:1") as other:
            other.stream(topic)
            cluster.wait_owned("g", topic, "c-0")
