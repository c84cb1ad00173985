"""``pyklient groups`` with ZooKeeper: groups of both kinds, garbage in nodes, and what cannot be found."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as LibrdkafkaPartition

from pyklient import Admin, OffsetAndMetadata
from pyklient import TopicPartition as Partition
from tests.cli.conftest import Done, Pyklient
from tests.servers.fixtures import NewName
from tests.servers.ports import HOST, free_port
from tests.servers.process import wait_until
from tests.servers.topics import create_topic
from tests.servers.zookeeper import connected
from tests.servers.zookeeper_kafka import ZooKeeperKafka

pytestmark = pytest.mark.java

_RECORDS = 10
_STATIC = b'{"version":1,"subscription":{"%s":2},"pattern":"static","timestamp":"1400"}'
_BLACK_LIST = b'{"version":1,"subscription":{"x\\/.*":1},"pattern":"black_list","timestamp":"1400"}'

CreateNodes = Callable[[str, Mapping[str, bytes]], None]


@pytest.fixture
def create_nodes(zookeeper_kafka: ZooKeeperKafka) -> Iterator[CreateNodes]:
    """Creates nodes below that of a group."""
    with connected(zookeeper_kafka.zookeeper_connect) as client:

        def create_nodes(group: str, nodes: Mapping[str, bytes]) -> None:
            for path, content in nodes.items():
                client.create(f"/consumers/{group}/{path}", content, makepath=True)

        yield create_nodes


@pytest.fixture
def groups(pyklient: Pyklient, zookeeper_kafka: ZooKeeperKafka) -> Pyklient:
    """Return a function that runs ``pyklient groups`` on a cluster in ZooKeeper."""
    zookeeper = zookeeper_kafka.zookeeper_connect

    def groups(*arguments: str) -> Done:
        return pyklient("groups", *arguments, "--zookeeper", zookeeper)

    return groups


@pytest.fixture
def topic(zookeeper_kafka: ZooKeeperKafka, new_name: NewName) -> str:
    """A topic with three partitions, which have ten records each."""
    name = create_topic(zookeeper_kafka.bootstrap_servers, new_name(), 3)
    producer = Producer({"bootstrap.servers": zookeeper_kafka.bootstrap_servers, "log_level": 0})
    for number in range(3 * _RECORDS):
        producer.produce(name, str(number), partition=number % 3)
    assert producer.flush(60) == 0
    return name


def _described(done: Done) -> Any:
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


def test_a_group_shows_its_members_owners_offsets_and_lag(
    groups: Pyklient, create_nodes: CreateNodes, topic: str, new_name: NewName
) -> None:
    group = new_name()
    one, two, three = f"{group}_host-1-1400000000000-1f2e3d4c", f"{group}_b", f"{group}_c"
    create_nodes(
        group,
        {
            f"ids/{one}": _STATIC % topic.encode(),
            f"ids/{two}": _BLACK_LIST,
            f"ids/{three}": b'{ "%s": 1 }' % topic.encode(),
            f"owners/{topic}/0": f"{one}-0".encode(),
            f"owners/{topic}/1": f"{one}-1".encode(),
            f"owners/{topic}/2": f"{two}-0".encode(),
            f"offsets/{topic}/0": b"4",
            f"offsets/{topic}/2": b"0",
        },
    )
    found = _described(groups("describe", group, "--json"))
    kinds = (found["coordination"], found["state"], found["kafka"], found["errors"])
    assert kinds == ("zookeeper", "Stable", None, [])
    assert [
        (each["consumer_id"], each["host"], each["pattern"], each["subscription"], len(each["assignment"]))
        for each in found["members"]
    ] == [
        (two, None, "black_list", {"x/.*": 1}, 1),
        (three, None, "static", {topic: 1}, 0),
        (one, "host-1", "static", {topic: 2}, 2),
    ]
    shared = {"topic": topic, "kafka": None, "end": _RECORDS, "error": None}
    assert found["partitions"] == [
        {"partition": 0, "zookeeper": 4, "committed": 4, "lag": 6, "owner": f"{one}-0", **shared},
        {"partition": 1, "zookeeper": None, "committed": None, "lag": 10, "owner": f"{one}-1", **shared},
        {"partition": 2, "zookeeper": 0, "committed": 0, "lag": 10, "owner": f"{two}-0", **shared},
    ]
    assert (found["lag"], found["lag_without_commit"]) == (26, 10)
    shown = groups("describe", group).text.splitlines()
    assert shown[0] == f"{group}: Stable, 3 members, coordinated through ZooKeeper, lag 26"
    assert shown[1].startswith("The lag includes 10 in 1 partition without a committed offset")
    assert [line.split() for line in shown[2:6]] == [
        ["member", "host", "streams"],
        [two, "-", "black_list", "x/.*:", "1"],
        [three, "-", f"{topic}:", "1"],
        [one, "host-1", f"{topic}:", "2"],
    ]
    assert [line.split() for line in shown[6:]] == [
        ["topic", "partition", "zookeeper", "kafka", "end", "lag", "owner"],
        [topic, "0", "4", "-", "10", "6", f"{one}-0"],
        [topic, "1", "-", "-", "10", "10", f"{one}-1"],
        [topic, "2", "0", "-", "10", "10", f"{two}-0"],
    ]


def test_garbage_is_an_error_of_its_row_and_the_other_rows_are_shown(
    groups: Pyklient, create_nodes: CreateNodes, topic: str, new_name: NewName
) -> None:
    group = new_name()
    nodes = {
        f"ids/{group}_a": b"garbage",
        f"ids/{group}_b": _STATIC % topic.encode(),
        f"owners/{topic}/0": f"{group}_b-0".encode(),
        f"owners/{topic}/1": b"\xff",
        f"offsets/{topic}/0": b"7",
        f"offsets/{topic}/1": b"seven",
        f"offsets/{topic}/x": b"7",
    }
    create_nodes(group, nodes)
    found = _described(groups("describe", group, "--json"))
    assert [each["error"] is None for each in found["members"]] == [False, True]
    first, second, third = found["partitions"]
    assert (first["lag"], first["owner"], first["error"]) == (3, f"{group}_b-0", None)
    assert (second["lag"], second["owner"], second["zookeeper"]) == (10, None, None)
    start = f"ZooKeeper's node /consumers/{group}"
    fault = "cannot be understood: the content is not"
    assert f"{start}/owners/{topic}/1 {fault} text in UTF-8" in second["error"]
    assert f"{start}/offsets/{topic}/1 {fault} a whole number" in second["error"]
    assert (third["lag"], third["error"]) == (10, None)
    assert found["errors"] == [f"{start}/offsets/{topic}/x is not named after a partition"]
    shown = groups("describe", group)
    assert shown.code == 0
    for line in (found["errors"][0], found["members"][0]["error"], second["error"]):
        assert line in shown.text


def test_a_group_of_brokers_and_one_in_zookeeper_may_have_the_same_name(
    groups: Pyklient,
    create_nodes: CreateNodes,
    zookeeper_kafka: ZooKeeperKafka,
    topic: str,
    new_name: NewName,
) -> None:
    group, in_kafka_only = new_name(), new_name()
    servers = zookeeper_kafka.bootstrap_servers
    for name in (group, in_kafka_only):
        consumer = Consumer({"bootstrap.servers": servers, "group.id": name, "log_level": 0})
        consumer.commit(offsets=[LibrdkafkaPartition(topic, 1, 8)], asynchronous=False)
        consumer.close()
    create_nodes(group, {f"offsets/{topic}/1": b"9", f"offsets/{topic}/2": b"1"})
    empty = _described(groups("describe", group, "--json"))
    offsets = [(each["zookeeper"], each["kafka"], each["lag"]) for each in empty["partitions"]]
    assert (empty["state"], empty["kafka"], offsets) == (
        "Empty",
        None,
        [(None, None, 10), (9, 8, 1), (1, None, 9)],
    )
    only = _described(groups("describe", in_kafka_only, "--json"))
    assert (only["coordination"], only["lag"]) == ("kafka", 22)
    member = Consumer({"bootstrap.servers": servers, "group.id": group, "log_level": 0})
    member.subscribe([topic])
    wait_until(lambda: member.poll(0.1) is None and bool(member.assignment()), 60, "an assignment")
    both = _described(groups("describe", group, "--json"))
    assert (both["coordination"], both["kafka"]["coordination"]) == ("zookeeper", "kafka")
    assert len(both["kafka"]["members"]) == 1
    lines = [line for line in groups("describe", group).text.splitlines() if line.startswith(f"{group}: ")]
    assert ["ZooKeeper" in line for line in lines] == [True, False]
    listed = {
        (each["group_id"], each["coordination"], each["state"])
        for each in json.loads(groups("list", "--json").out)
        if each["group_id"] in (group, in_kafka_only)
    }
    assert listed == {
        (group, "kafka", "Stable"),
        (group, "zookeeper", "Empty"),
        (in_kafka_only, "kafka", "Empty"),
    }
    assert f"{group} Empty consumer zookeeper".split() in [
        line.split() for line in groups("list").text.splitlines()
    ]
    member.close()


def test_a_group_in_zookeeper_has_offsets_and_lag_and_is_deleted_if_it_has_no_members(
    groups: Pyklient,
    create_nodes: CreateNodes,
    zookeeper_kafka: ZooKeeperKafka,
    topic: str,
    new_name: NewName,
) -> None:
    busy, idle, missing = new_name(), new_name(), new_name()
    create_nodes(busy, {f"ids/{busy}_a": b"{}"})
    create_nodes(idle, {f"offsets/{topic}/1": b"9"})
    zero, one, two = (Partition(topic, number) for number in range(3))
    with Admin(zookeeper=zookeeper_kafka.zookeeper_connect) as admin:
        assert admin.group_offsets(idle, coordination="zookeeper") == {one: OffsetAndMetadata(9)}
        lags = {each: found.lag for each, found in admin.group_lag(idle, coordination="zookeeper").items()}
        assert lags == {zero: _RECORDS, one: 1, two: _RECORDS}
        assert admin.group_offsets(idle) == {}
    done = groups("delete", missing, busy, idle, "--coordination", "zookeeper")
    assert (done.code, done.out) == (1, b"")
    of_missing, of_busy = done.err.splitlines()
    assert of_missing.startswith(f"pyklient: cannot delete group {missing}: ZooKeeper at ")
    assert of_busy.startswith(f"pyklient: cannot delete group {busy}, which is in ZooKeeper: the group still")
    listed = {each["group_id"] for each in json.loads(groups("list", "--json").out)}
    assert {busy, idle} & listed == {busy}


def test_what_is_not_there_is_one_sentence_that_says_what_to_check(
    groups: Pyklient, pyklient: Pyklient, zookeeper_kafka: ZooKeeperKafka, new_name: NewName
) -> None:
    group, zookeeper = new_name(), zookeeper_kafka.zookeeper_connect
    unknown = groups("describe", group)
    assert (unknown.code, unknown.out) == (1, b"")
    assert unknown.err == (
        f"pyklient: cannot describe group {group}: ZooKeeper at {zookeeper} has no node /consumers/{group}; "
        "check the name of the group and the chroot of the cluster. No broker has a group of this name "
        "either\n"
    )
    for command in (["list"], ["describe", group]):
        lost = pyklient("groups", *command, "--zookeeper", f"{zookeeper}/missing", "--timeout", "5")
        assert (lost.code, lost.out, lost.err.count("\n")) == (1, b"", 1)
        assert "has no node /missing, which the address names as the chroot of a cluster" in lost.err
        nobody = f"{HOST}:{free_port()}"
        away = pyklient("groups", *command, "--zookeeper", nobody, "--timeout", "1")
        assert (away.code, away.out, away.err.count("\n")) == (1, b"", 1)
        assert f"ZooKeeper at {nobody} could not be reached within 1 s" in away.err
    wrong = pyklient("groups", "list", "--zookeeper", "host:port/chroot")
    assert wrong.code == 2
    assert "'host:port' is not host:port; pass for example 'one:2181,two:2181/kafka'" in wrong.err


def test_offsets_are_copied_from_zookeeper_to_kafka_and_back(
    pyklient: Pyklient,
    zookeeper_kafka: ZooKeeperKafka,
    create_nodes: CreateNodes,
    topic: str,
    new_name: NewName,
) -> None:
    group, cluster = new_name(), ("--zookeeper", zookeeper_kafka.zookeeper_connect)

    def copy(*arguments: str) -> Done:
        return pyklient("offsets", "copy", group, *arguments, *cluster)

    def offsets(storage: str) -> str:
        return pyklient("offsets", "export", group, "--storage", storage, *cluster).text

    nothing = copy("--to", "kafka", "--execute")
    assert (nothing.code, nothing.out) == (0, b"")
    assert nothing.err == f"pyklient: group {group} has no offsets in ZooKeeper\n"

    create_nodes(group, {f"offsets/{topic}/0": b"6", f"offsets/{topic}/1": b"2"})
    plan = copy("--to", "kafka")
    assert plan.err == "pyklient: nothing was changed; --execute makes these changes\n"
    head = ["topic", "partition", "zookeeper", "kafka", "before", "kafka", "after"]
    assert plan.text.split() == [*head, topic, "0", "6", "-", "6", topic, "1", "2", "-", "2"]
    assert offsets("kafka") == ""

    done = copy("--to", "kafka", "--execute", "--follow", "--interval", "0.1", "-n", "2")
    assert (done.code, done.err, done.text.count("topic")) == (0, "", 2)
    assert offsets("kafka") == offsets("zookeeper") == f"{topic},0,6\n{topic},1,2\n"

    ahead = ("reset", group, "--to-offset", "5", "--topic", f"{topic}:1", "--storage", "kafka", "--execute")
    assert pyklient("offsets", *ahead, *cluster).code == 0
    done = copy("--to", "kafka", "--execute")
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert f"1 offset in Kafka did not change, because the ZooKeeper offset is smaller: {topic}-1" in done.err
    assert copy("--to", "zookeeper", "--execute").code == 0
    assert offsets("zookeeper") == f"{topic},0,6\n{topic},1,5\n"
