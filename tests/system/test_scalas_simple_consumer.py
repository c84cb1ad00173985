"""The consumer of one broker gets the same answers as Scala's SimpleConsumer of Kafka 0.8.2.2, from the same
broker."""

from collections.abc import Callable, Iterator
from typing import Final

import pytest

from pyklient import (
    BrokerConsumer,
    BrokerError,
    CommitError,
    FetchRequestBuilder,
    Message,
    MessageTooLargeError,
    OffsetAndMetadata,
    PartitionFetch,
    Producer,
    SimpleConsumer,
    TopicPartition,
    UnsupportedVersionError,
)
from pyklient.net.metadata import Node
from tests.oracles.process import Oracle
from tests.servers.fixtures import NewName
from tests.servers.kafka import KraftCluster
from tests.servers.pool import ServerPool
from tests.servers.process import wait_until
from tests.servers.reference import ReferenceBroker
from tests.servers.topics import create_topic
from tests.servers.zookeeper_kafka import ZooKeeperKafka

pytestmark = pytest.mark.java

_SCALAS_KAFKA: Final = "0.8.2.2"
_SIZE: Final = 100_000
_GROUP: Final = "GROUP"
"""The first part of the name of a group in the calls. Each client has another word there."""


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with Oracle(_SCALAS_KAFKA, "SimpleConsumerOracle.java") as oracle:
        yield oracle


def answer(simple: BrokerConsumer, line: str) -> str:
    """Return what *simple* answers to *line*, a call in the words of the oracle."""
    call, *words = line.split(" ")
    match call, words:
        case "fetch", wanted:
            return _fetched(simple, [each.split(":") for each in wanted])
        case "before", [topic, partition, time, most]:
            return _code_or(
                lambda: str(simple.get_offsets_before(topic, int(partition), int(time), int(most)))
            )
        case "edge", [topic, partition, time]:
            return _code_or(lambda: str([simple.earliest_or_latest_offset(topic, int(partition), int(time))]))
        case "commit", [version, group, topic, partition, offset, metadata]:
            where = TopicPartition(topic, int(partition))
            position = OffsetAndMetadata(int(offset), metadata)
            return _code_or(lambda: _committed(simple, group, where, position, version))
        case "offsets", [version, group, topic, *partitions]:
            asked = [TopicPartition(topic, int(each)) for each in partitions]
            return _code_or(lambda: _offsets(simple, group, asked, version))
        case "coordinator", [group]:
            return f"0 {_name(simple.find_coordinator(group))}"
        case "metadata", [topic]:
            return _metadata(simple, topic)
    raise ValueError(line)


def _fetched(simple: BrokerConsumer, wanted: list[list[str]]) -> str:
    builder = FetchRequestBuilder().client_id("ours").max_wait(100).min_bytes(1)
    for topic, partition, offset, size in wanted:
        builder.add_fetch(topic, int(partition), int(offset), int(size))
    response = simple.fetch(builder.build())
    text, is_error = "", False
    for topic, number in sorted({(each[0], int(each[1])) for each in wanted}):
        fetched = response.message_set(topic, number)
        code = response.error_code(topic, number)
        assert code or fetched.error is None or isinstance(fetched.error, MessageTooLargeError)
        found = [_message(each) for each in fetched.messages]
        is_error = is_error or code != 0
        text += " ".join([f"; {topic}-{number} {code} {response.high_watermark(topic, number)}", *found])
    return ("error" if is_error else "ok") + text


def _message(message: Message) -> str:
    key = "null" if message.key is None else message.key.decode()
    return f"{message.offset}={key}:{message.value.decode()}"


def _committed(
    simple: BrokerConsumer, group: str, where: TopicPartition, position: OffsetAndMetadata, version: str
) -> str:
    simple.commit_offsets(group, {where: position}, "zookeeper" if version == "0" else "kafka")
    return "0"


def _offsets(simple: BrokerConsumer, group: str, partitions: list[TopicPartition], version: str) -> str:
    found = simple.fetch_offsets(group, partitions, "zookeeper" if version == "0" else "kafka")
    return " ".join("none" if at is None else f"{at.offset}:{at.metadata}" for at in found.values())


def _metadata(simple: BrokerConsumer, topic: str) -> str:
    metadata = simple.topic_metadata([topic])
    info = metadata.topics[topic]
    parts = [f"{topic} {info.error}"]
    for number, each in info.partitions.items():
        leader = metadata.leader(TopicPartition(topic, number))
        name = "-" if leader is None else _name(leader)
        parts.append(f"{number} {each.error} {name} {list(each.replicas)} {list(each.isr)}")
    return "; ".join(parts)


def _name(node: Node) -> str:
    return f"{node.id}@{node.host}:{node.port}"


def _code_or(call: Callable[[], str]) -> str:
    try:
        return call()
    except BrokerError as error:
        return str(error.code)
    except CommitError as error:
        (cause,) = error.partitions.values()
        assert isinstance(cause, BrokerError)
        return str(cause.code)
    except UnsupportedVersionError:
        return "35"


def connected(servers: str) -> BrokerConsumer:
    host, _, port = servers.rpartition(":")
    return SimpleConsumer.connect(host, int(port))


def compare(oracle: Oracle, servers: str, lines: list[str]) -> list[str]:
    """Check that both clients answer each of *lines* alike, and return the answers.

    Each client has a group of its own, in place of the word GROUP.
    """
    host, _, port = servers.rpartition(":")
    assert oracle.ask([f"connect {host} {port}"]) == ["connected"]
    theirs = oracle.ask([line.replace(_GROUP, "theirs") for line in lines])
    with connected(servers) as simple:
        ours = [answer(simple, line.replace(_GROUP, "ours")) for line in lines]
    assert list(zip(lines, ours, strict=True)) == list(zip(lines, theirs, strict=True))
    return ours


def fill(servers: str, topic: str) -> None:
    """Write five messages with keys, one without, and one that is larger than the others."""
    with Producer(servers, linger_ms=0, enable_idempotence=False) as producer:
        for number in range(5):
            producer.send(topic, f"value-{number}".encode(), key=f"k{number}".encode(), partition=0)
            producer.flush(60)
        producer.send(topic, b"x", partition=1).result(30)
        producer.send(topic, b"y" * 900, partition=1).result(30)


def calls(topic: str, group: str) -> list[str]:
    """Return calls that every broker answers alike, whatever the format of its records."""
    both = f"fetch {topic}:0:0:{_SIZE} {topic}:1:1:{_SIZE}"
    return [
        f"fetch {topic}:0:0:{_SIZE}",
        f"fetch {topic}:0:3:{_SIZE}",
        f"fetch {topic}:0:5:{_SIZE}",
        f"fetch {topic}:0:6:{_SIZE}",
        both,
        f"{both} {topic}:7:0:{_SIZE}",
        f"{both} {topic}:0:4:{_SIZE}",
        f"fetch {topic}:0:9:{_SIZE} {topic}:1:0:{_SIZE}",
        *(f"before {topic} 0 {time} {most}" for time in (-1, -2, 0, 2**62) for most in (1, 3, 10)),
        f"before {topic} 7 -1 1",
        f"edge {topic} 0 -1",
        f"edge {topic} 0 -2",
        f"edge {topic} 7 -1",
        f"coordinator {group}",
        f"commit 1 {group} {topic} 0 3 three",
        f"commit 1 {group} {topic} 1 1 one",
        f"offsets 1 {group} {topic} 0 1 7",
        f"commit 1 {group} {topic} 0 2 back",
        f"offsets 1 {group} {topic} 1 0",
        f"metadata {topic}",
    ]


def wait_for_coordinator(servers: str, group: str) -> None:
    """Return when the broker has the topic for committed offsets, which the first request creates."""

    def is_there() -> bool:
        try:
            with connected(servers) as simple:
                simple.find_coordinator(group)
                simple.fetch_offsets(group, [TopicPartition("any", 0)])
        except BrokerError as error:
            if not error.retriable:
                raise
            return False
        return True

    wait_until(is_there, 60, f"the group coordinator of {group}")


@pytest.mark.parametrize(
    "version",
    [
        pytest.param(version, marks=pytest.mark.uses(f"kafka-{version}"))
        for version in ("0.8.2.2", "0.10.2.2")
    ],
)
def test_each_call_on_a_real_broker(
    version: str, oracle: Oracle, servers: ServerPool, new_name: NewName
) -> None:
    """The offsets of groups are kept in Kafka and in ZooKeeper."""
    server = servers.get_as(ZooKeeperKafka, f"kafka-{version}")
    topic, group = server.create_topic(new_name(), 2), f"{_GROUP}-{new_name()}"
    fill(server.bootstrap_servers, topic)
    wait_for_coordinator(server.bootstrap_servers, group)
    in_zookeeper = [
        f"offsets 0 {group} {topic} 0 1",
        f"commit 0 {group} {topic} 0 4 kept-in-zookeeper",
        f"offsets 0 {group} {topic} 0 1",
        f"offsets 1 {group} {topic} 0 1",
    ]
    found = compare(oracle, server.bootstrap_servers, [*calls(topic, group), *in_zookeeper])
    assert found[-4:] == ["none none", "0", "4: none", "2:back 1:one"], "Kafka's offsets are others"
    read = [f"offsets {version} {group.replace(_GROUP, 'ours')} {topic} 0 1" for version in (0, 1)]
    assert oracle.ask(read) == ["4: none", "2:back 1:one"], "they read what this client has committed"


def test_each_call_on_the_reference_broker(
    oracle: Oracle, reference_broker: ReferenceBroker, new_name: NewName
) -> None:
    servers, group = reference_broker.bootstrap_servers, f"{_GROUP}-{new_name()}"
    topic = create_topic(servers, new_name(), 2)
    fill(servers, topic)
    lines = [*calls(topic, group), f"commit 0 {group} {topic} 0 4 x", f"offsets 0 {group} {topic} 0"]
    assert compare(oracle, servers, lines)[-2:] == ["35", "35"]


def test_each_call_on_the_newest_broker(
    reference_broker: ReferenceBroker, newest_kafka: KraftCluster, new_name: NewName
) -> None:
    """Kafka 4.3.1 no longer supports the requests of Scala's client. Its answers are those of the reference
    broker, which are those that Scala's client gets."""
    topic, group, found = new_name(), new_name(), []
    for server in (reference_broker, newest_kafka):
        servers = server.bootstrap_servers
        create_topic(servers, topic, 2)
        fill(servers, topic)
        wait_for_coordinator(servers, group)
        lines = [line for line in calls(topic, group) if not line.startswith(("coordinator", "metadata"))]
        with connected(servers) as simple:
            found.append([answer(simple, line) for line in lines])
            assert answer(simple, f"coordinator {group}").endswith(f"@{servers}")
            assert answer(simple, f"metadata {topic}").count(servers) == 2
    assert found[0] == found[1]


def test_rows_43_to_48_at_the_oldest_broker(
    oracle: Oracle, oldest_kafka: ZooKeeperKafka, new_name: NewName
) -> None:
    """Twenty messages of 28 bytes in segments of 100 bytes; then a larger message, which is cut off."""
    servers = oldest_kafka.bootstrap_servers
    topic = oldest_kafka.create_topic(new_name(), 2, segment_bytes=100)
    empty = compare(oracle, servers, [f"before {topic} 0 {time} 10" for time in (-1, -2)])
    assert empty == ["[0]", "[0]"], "row 45"
    with Producer(servers, linger_ms=0, enable_idempotence=False) as producer:
        for _ in range(20):
            producer.send(topic, b"42", partition=0).result(30)
        producer.send(topic, b"x", partition=1).result(30)
        producer.send(topic, b"y" * 50, partition=1).result(30)
    offsets = compare(oracle, servers, [f"before {topic} 0 {time} 10" for time in (-1, -2)])
    assert offsets == ["[20, 18, 15, 12, 9, 6, 3, 0]", "[0]"], "rows 43 and 44"
    ends = compare(oracle, servers, [f"fetch {topic}:0:{offset}:{_SIZE}" for offset in (20, 21)])
    assert ends == [f"ok; {topic}-0 0 20", f"error; {topic}-0 1 -1"], "row 46"
    sizes = [
        f"fetch {topic}:1:{offset}:{size}" for offset in (0, 1) for size in (10, 26, 27, 60, 75, 76, 200)
    ]
    compare(oracle, servers, sizes)
    with connected(servers) as simple:
        small = simple.fetch(PartitionFetch(topic, 1, 1, 60))
        with pytest.raises(MessageTooLargeError, match=f"offset 1 of {topic}-1 is larger than max_bytes=60"):
            list(small)
        assert [each.value for each in simple.fetch(PartitionFetch(topic, 1, 1, 120))] == [b"y" * 50], (
            "row 47"
        )
        first = simple.fetch(PartitionFetch(topic, 1, 0, 60))
        assert ([each.value for each in first], first.next_offset) == ([b"x"], 1), "row 48"
