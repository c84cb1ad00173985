"""The nodes that a broker writes into ZooKeeper, on nodes in memory."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from pyklient.broker.registration.entries import TopicEntry, announce, find_cluster, mirror_topics
from pyklient.broker.registration.zookeeper_offsets import read_offsets
from pyklient.errors import ConfigurationError, NodeContentError
from pyklient.registry.broker_nodes import BrokerEndpoint, BrokerNode, broker_content
from pyklient.registry.committed_offsets import write_offsets
from pyklient.registry.requests import Create, Delete, RegistryPause, Write
from pyklient.topic_partition import TopicPartition
from tests.consumer.group.zookeeper.nodes import Nodes

OURS = BrokerNode(1, (BrokerEndpoint("PLAINTEXT", "PLAINTEXT", "h", 9092),), timestamp_ms=1400)
THEIRS = BrokerNode(1, (BrokerEndpoint("PLAINTEXT", "PLAINTEXT", "other", 9092),), timestamp_ms=1400)


def topic(*leaders: tuple[int, int], identity: int = 1, **config: str) -> TopicEntry:
    return TopicEntry(identity.to_bytes(16), config, leaders)


def changes(nodes: Nodes) -> list[str]:
    """Return the paths that were changed, and forget all requests."""
    found = [each.path for each in nodes.asked if isinstance(each, Create | Write | Delete)]
    nodes.asked.clear()
    return found


def content(nodes: Nodes, path: str) -> Any:
    return json.loads(nodes.found[path][0])


def test_a_broker_writes_the_id_of_its_cluster_itself_and_the_controller_with_its_epoch() -> None:
    nodes = Nodes()
    nodes.play(announce(OURS, "the-cluster", 1))
    assert content(nodes, "/cluster/id") == {"version": "1", "id": "the-cluster"}
    assert nodes.found["/brokers/ids/1"] == (broker_content(OURS), "mine")
    assert content(nodes, "/controller") == {"version": 1, "brokerid": 1, "timestamp": "1400"}
    assert nodes.found["/controller"][1] == "mine"
    before = dict(nodes.found)
    assert before["/controller_epoch"] == (b"1", None)
    nodes.play(announce(OURS, "the-cluster", 1))  # again in the same session: nothing changes
    assert nodes.found == before
    nodes.expire("mine")
    nodes.play(announce(OURS, "the-cluster", 1), "next")
    assert nodes.found["/controller_epoch"][0] == b"2"


def test_an_id_that_another_broker_has_is_an_error_at_once_and_an_own_node_is_waited_for() -> None:
    nodes = Nodes({"/brokers/ids/1": (broker_content(THEIRS), "theirs")})
    with pytest.raises(
        ConfigurationError,
        match="the node /brokers/ids/1 in ZooKeeper belongs to another broker, which is running",
    ):
        nodes.play(announce(OURS, "c", 1))
    assert RegistryPause(0.1) not in nodes.asked
    nodes = Nodes({"/brokers/ids/1": (broker_content(OURS), "crashed")})
    with pytest.raises(
        ConfigurationError,
        match="the node /brokers/ids/1 in ZooKeeper belongs to another broker, which is running",
    ):
        nodes.play(announce(OURS, "c", 1))
    assert nodes.asked.count(RegistryPause(0.1)) == 11
    steps = nodes.steps(announce(OURS, "c", 1), "mine")
    while RegistryPause(0.1) not in nodes.asked[-2:]:
        next(steps)
    nodes.expire("crashed")
    assert list(steps)
    assert nodes.found["/brokers/ids/1"][1] == "mine"


def test_a_broker_finds_the_cluster_of_its_chroot_and_refuses_to_join_other_brokers() -> None:
    nodes = Nodes(
        {
            "/cluster/id": (b'{"version":"1","id":"abc"}', None),
            "/brokers/topics/clicks": (b'{"version":1,"partitions":{"0":[1],"2":[1]}}', None),
            "/config/topics/clicks": (b'{"version":1,"config":{"retention.ms":"5"}}', None),
            "/brokers/topics/garbage": (b"?", None),
            "/brokers/topics/deleted": (b'{"version":1,"partitions":{}}', None),
        }
    )
    found = nodes.play(find_cluster(1))
    assert found.cluster_id == "abc"
    assert [(each.name, each.partitions, each.config) for each in found.topics] == [
        ("clicks", 3, {"retention.ms": "5"})
    ]
    assert "/brokers/topics/garbage cannot be understood" in found.ignored[0]
    nodes.found["/brokers/ids/1"] = nodes.found["/brokers/ids/7"] = (b"h:1", "other")
    with pytest.raises(ConfigurationError, match=r"registered in this chroot of ZooKeeper \(7\)"):
        nodes.play(find_cluster(1))


def test_only_what_has_changed_is_written() -> None:
    nodes = Nodes({"/controller_epoch": (b"4", None)})
    before: Mapping[str, TopicEntry] = {}

    def mirror(**topics: TopicEntry) -> list[str]:
        nonlocal before
        nodes.play(mirror_topics(before, topics))
        before = topics
        return changes(nodes)

    states = "/brokers/topics/t/partitions/{}/state".format
    written = ["/config/topics/t", "/brokers/topics/t", states(0)]
    assert mirror(t=topic((1, 0))) == written
    state = {"controller_epoch": 4, "leader": 1, "version": 1, "leader_epoch": 0, "isr": [1]}
    assert content(nodes, states(0)) == state
    assert content(nodes, "/brokers/topics/t")["topic_id"] == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert mirror(t=topic((1, 0))) == []
    assert mirror(t=topic((1, 0)), u=topic((1, 0), identity=2)) == [
        path.replace("topics/t", "topics/u") for path in written
    ]
    grown = mirror(t=topic((1, 0), (1, 0)), u=topic((1, 0), identity=2))
    assert states(1) in grown
    assert content(nodes, "/brokers/topics/t")["partitions"] == {"0": [1], "1": [1]}
    assert mirror(t=topic((1, 0), (1, 0))) == ["/brokers/topics/u", "/config/topics/u"]
    created_again = mirror(t=topic((1, 0), identity=3, **{"retention.ms": "5"}))
    assert created_again[0] == "/brokers/topics/t"
    assert states(1) not in nodes.found
    assert content(nodes, "/config/topics/t") == {"version": 1, "config": {"retention.ms": "5"}}


def test_offsets_are_created_replaced_and_read_and_garbage_is_an_error_of_its_partition() -> None:
    nodes = Nodes()
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    nodes.play(write_offsets("g", {first: 7}))
    nodes.play(write_offsets("g", {first: 5, second: 1}))
    assert nodes.found["/consumers/g/offsets/t/0"] == (b"5", None)
    nodes.found["/consumers/g/offsets/t/1"] = (b"?", None)
    found = nodes.play(read_offsets("g", [first, second, TopicPartition("t", 2)]))
    assert found.pop(first) == 5
    assert isinstance(found.pop(second), NodeContentError)
    assert found == {}
