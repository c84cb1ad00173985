"""Groups that are coordinated through ZooKeeper: their nodes are read whatever they contain, and brokers add
what they know."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as LibrdkafkaPartition

from pyklient import Producer, TopicPartition
from pyklient.admin import Admin, GroupListing, ZooKeeperMemberDescription, ZooKeeperPartitionProgress
from pyklient.admin.zookeeper_groups import GroupNodes, delete_group, describe_group, read_group, read_groups
from pyklient.broker import Broker
from pyklient.config import AdminConfig
from pyklient.errors import BrokerError, ConfigurationError
from pyklient.net.network_client import NetworkClient
from pyklient.registry.requests import Children, Delete, RegistryDialogue
from tests.consumer.group.zookeeper.nodes import Nodes
from tests.servers.fixtures import NewName

_GROUP = "/consumers/g"
_ONE = "g_host-1.example-1400000000000-1f2e3d4c"


def _nodes(**content: bytes) -> Nodes:
    """Return nodes below the group's own, with the given content of each path."""
    return Nodes({_GROUP: (b"", None), **{path: (each, None) for path, each in content.items()}})


def _read(nodes: Nodes) -> GroupNodes:
    found = nodes.play(read_group("g"))
    assert found is not None
    return found


def test_groups_are_listed_with_a_state_that_follows_from_their_members() -> None:
    nodes = Nodes(
        {
            "/consumers/b/ids/b_1": (b"{}", "session"),
            "/consumers/a/ids": (b"", None),
            "/consumers/c": (b"", None),
        }
    )
    assert nodes.play(read_groups()) == [
        GroupListing("a", "consumer", "Empty", "zookeeper"),
        GroupListing("b", "consumer", "Stable", "zookeeper"),
        GroupListing("c", "consumer", "Empty", "zookeeper"),
    ]
    assert Nodes().play(read_groups()) == []


def test_a_group_without_a_node_is_not_there() -> None:
    nodes = _nodes()
    for name in ("other", "", ".", "..", "g/ids"):
        assert nodes.play(read_group(name)) is None
    found = _read(nodes)
    assert (found.members, found.owners, found.offsets, found.partitions) == ([], {}, {}, {})
    assert not found.kafka_stores_offsets


def test_a_group_with_members_is_not_deleted_and_one_without_is_deleted_with_its_offsets() -> None:
    nodes = _nodes(**{f"{_GROUP}/ids/g_a": b"{}", f"{_GROUP}/offsets/t/0": b"7", "/consumers/h": b""})
    with pytest.raises(BrokerError, match=r"cannot delete group g, which is in ZooKeeper: .*NON_EMPTY_GROUP"):
        nodes.play(delete_group("g"))
    assert nodes.play(delete_group("h"))
    assert not nodes.play(delete_group("h"))
    assert not nodes.play(delete_group("g/ids"))
    assert nodes.play(read_group("g")) is not None
    nodes.play(_delete_member())
    assert nodes.play(delete_group("g"))
    assert nodes.play(read_groups()) == []
    assert nodes.play(read_group("g")) is None


def _delete_member() -> RegistryDialogue[None]:
    yield Delete(f"{_GROUP}/ids/g_a")


def test_members_are_read_in_every_version_of_their_nodes() -> None:
    found = _read(
        _nodes(
            **{
                f"{_GROUP}/ids/{_ONE}": b'{"version":1,"subscription":{"t":2,"u":1},"pattern":"static",'
                b'"timestamp":"1400"}',
                f"{_GROUP}/ids/g_b": b'{"version":1,"subscription":{"a\\/b.*":3},"pattern":"white_list",'
                b'"timestamp":"1500"}',
                f"{_GROUP}/ids/g_c": b'{ "v": 4 }',
                f"{_GROUP}/ids/g_d": b"!2!x.*",
            }
        )
    )
    assert found.members == [
        ZooKeeperMemberDescription("g_b", None, {"a/b.*": 3}, "white_list", 1, 1500),
        ZooKeeperMemberDescription("g_c", None, {"v": 4}, "static", 0, -1),
        ZooKeeperMemberDescription("g_d", None, {"x.*": 2}, "black_list", 0, -1),
        ZooKeeperMemberDescription(_ONE, "host-1.example", {"t": 2, "u": 1}, "static", 1, 1400),
    ]
    assert found.partitions == {"t": None, "u": None, "v": None}


def test_owners_and_offsets_are_read_with_the_partitions_of_their_topics() -> None:
    topic = b'{"version":1,"partitions":{"0":[1],"1":[1],"10":[1]}}'
    found = _read(
        _nodes(
            **{
                f"{_GROUP}/owners/t/0": b"g_a-0",
                f"{_GROUP}/owners/u": b"",
                f"{_GROUP}/offsets/t/10": b"5",
                f"{_GROUP}/offsets/t/0": b"7",
                "/brokers/topics/t": topic,
                "/brokers/topics/u": topic,
                "/brokers/topics/__consumer_offsets": b"{}",
            }
        )
    )
    assert found.owners == {TopicPartition("t", 0): "g_a-0"}
    assert found.offsets == {TopicPartition("t", 0): 7, TopicPartition("t", 10): 5}
    assert found.partitions == {"t": [0, 1, 10], "u": [0, 1, 10]}
    assert found.kafka_stores_offsets
    assert dict(found.errors) == {}


def test_the_names_of_partitions_in_kafka_0_7_are_understood_and_others_are_errors() -> None:
    found = _read(
        _nodes(
            **{
                f"{_GROUP}/offsets/t/3-1": b"6",
                f"{_GROUP}/offsets/t/1": b"5",
                f"{_GROUP}/offsets/t/3-2": b"8",
                f"{_GROUP}/offsets/t/x": b"9",
                f"{_GROUP}/owners/t/3-2": b"g_a-0",
            }
        )
    )
    assert found.offsets == {TopicPartition("t", 1): 5, TopicPartition("t", 2): 8}
    assert found.owners == {TopicPartition("t", 2): "g_a-0"}
    [ignored] = found.errors[TopicPartition("t", 1)]
    assert f"{_GROUP}/offsets/t/3-1 is ignored, because another node is of the same" in ignored
    assert found.errors[None] == [f"ZooKeeper's node {_GROUP}/offsets/t/x is not named after a partition"]


def test_garbage_is_an_error_of_its_own_member_or_partition_and_of_nothing_else() -> None:
    found = _read(
        _nodes(
            **{
                f"{_GROUP}/ids/{_ONE}": b"garbage",
                f"{_GROUP}/ids/g_b": b'{"version":1,"subscription":{"t":1},"pattern":"static"}',
                f"{_GROUP}/owners/t/0": b"nobody",
                f"{_GROUP}/owners/t/1": b"g_b-0",
                f"{_GROUP}/offsets/t/0": b"\xff",
                f"{_GROUP}/offsets/t/1": b"5",
                f"{_GROUP}/offsets/t/2": b"-1",
                "/brokers/topics/t": b"[]",
            }
        )
    )
    broken, sound = sorted(found.members, key=lambda member: member.error is None)
    assert (broken.consumer_id, broken.host, broken.subscription) == (_ONE, "host-1.example", {})
    assert broken.error is not None
    assert f"{_GROUP}/ids/{_ONE} cannot be understood: the content is not JSON" in broken.error
    assert (sound.subscription, sound.error) == ({"t": 1}, None)
    assert found.owners == {TopicPartition("t", 1): "g_b-0"}
    assert found.offsets == {TopicPartition("t", 1): 5}
    owner, offset = found.errors[TopicPartition("t", 0)]
    fault = "cannot be understood: the content is not"
    assert f"{_GROUP}/owners/t/0 {fault} the id of a consumer's thread" in owner
    assert f"{_GROUP}/offsets/t/0 {fault} text" in offset
    [negative] = found.errors[TopicPartition("t", 2)]
    assert f"{_GROUP}/offsets/t/2 cannot be understood: the offset is negative" in negative
    [topic] = found.errors[None]
    assert "/brokers/topics/t cannot be understood" in topic
    assert TopicPartition("t", 1) not in found.errors


def test_a_node_that_goes_during_the_dialogue_is_left_out() -> None:
    nodes = _nodes(**{f"{_GROUP}/ids/g_a": b"{}", f"{_GROUP}/owners/t/0": b"g_a-0"})
    found: list[GroupNodes | None] = []

    def read() -> Iterator[None]:
        found.append((yield from nodes.steps(read_group("g"), "mine")))

    for _ in read():
        if nodes.asked[-1] in (Children(f"{_GROUP}/ids"), Children(f"{_GROUP}/owners/t")):
            for path in (f"{_GROUP}/ids/g_a", f"{_GROUP}/owners/t/0"):
                if path.startswith(nodes.asked[-1].path):
                    del nodes.found[path]
    assert found == [GroupNodes("g", partitions={"t": None})]


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def test_brokers_add_offsets_in_kafka_and_the_ends_of_logs(broker: Broker, new_name: NewName) -> None:
    topic, group = new_name(), new_name()
    broker.create_topic(topic, partitions=4)
    with Producer(broker.bootstrap_servers) as producer:
        for number in range(10):
            producer.send(topic, b"x", partition=number % 2)
    zero, one, two, three, four = (TopicPartition(topic, number) for number in range(5))
    gone = TopicPartition(new_name(), 0)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "log_level": 0})
    positions = [LibrdkafkaPartition(topic, 0, 3), LibrdkafkaPartition(topic, 1, 2)]
    consumer.commit(offsets=positions, asynchronous=False)
    consumer.close()
    nodes = GroupNodes(
        group,
        [ZooKeeperMemberDescription("g_a", None), ZooKeeperMemberDescription("g_a-1", None)],
        owners={zero: "g_a-0", one: "g_a-1-0", three: "g_b-0"},
        offsets={zero: 1, two: 0, four: 7, gone: 4},
        partitions={topic: [0, 1, 2, 3], gone.topic: None},
        kafka_stores_offsets=True,
    )
    nodes.errors[zero] += ["first", "second"]
    nodes.errors[None] += ["of no partition"]
    asking = NetworkClient(AdminConfig(bootstrap_servers=broker.bootstrap_servers))
    found = asking.play(describe_group(nodes), 10)
    assert found.partitions == {
        zero: ZooKeeperPartitionProgress("g_a-0", 1, 3, 5, None, "first; second"),
        one: ZooKeeperPartitionProgress("g_a-1-0", None, 2, 5),
        two: ZooKeeperPartitionProgress(None, 0, None, 0),
        three: ZooKeeperPartitionProgress("g_b-0", None, None, 0, 0),
        four: ZooKeeperPartitionProgress(None, 7, error=f"topic {topic} has no partition 4"),
        gone: ZooKeeperPartitionProgress(None, 4, error=f"there is no topic {gone.topic}"),
    }
    progress = [found.partitions[each] for each in (zero, one, two, three, four, gone)]
    assert [each.committed for each in progress] == [3, 2, 0, None, 7, 4]
    assert [each.lag for each in progress] == [2, 3, 0, 0, None, None]
    assert [each.assignment for each in found.members] == [(zero,), (one,)]
    assert (found.state, found.errors) == ("Stable", ("of no partition",))
    nodes.kafka_stores_offsets = False
    assert asking.play(describe_group(nodes), 10).partitions[zero].kafka_offset is None
    asking.close()


def test_without_the_address_of_zookeeper_its_groups_are_an_error_that_says_what_to_pass() -> None:
    wrong: Any = "both"
    with Admin("127.0.0.1:1") as admin:
        of_group: list[Callable[..., object]] = [admin.group_offsets, admin.group_lag, admin.delete_group]
        with pytest.raises(ConfigurationError, match="pass zookeeper='host:port/chroot' to Admin"):
            admin.describe_zookeeper_group("g", timeout=1)
        with pytest.raises(ConfigurationError, match="pass zookeeper='host:port/chroot' to Admin"):
            admin.groups(1, coordination="zookeeper")
        with pytest.raises(ConfigurationError, match="'both' is neither 'kafka' nor 'zookeeper'"):
            admin.groups(1, coordination=wrong)
        for ask in of_group:
            with pytest.raises(ConfigurationError, match="'both' is neither 'kafka' nor 'zookeeper'"):
                ask("g", 1, coordination=wrong)
            with pytest.raises(ConfigurationError, match="pass zookeeper='host:port/chroot' to Admin"):
                ask("g", 1, coordination="zookeeper")
