"""The contents of nodes: all versions, also as Kafka's brokers wrote them, are read; garbage is an error."""

import json
import re
from collections.abc import Callable

import pytest

from pyklient.errors import NodeContentError
from pyklient.registry.broker_nodes import (
    BrokerEndpoint,
    BrokerNode,
    broker_content,
    broker_ids,
    parse_broker,
)
from pyklient.registry.cluster_nodes import (
    cluster_id_content,
    controller_content,
    parse_cluster_id,
    parse_controller,
    parse_controller_epoch,
)
from pyklient.registry.consumer_nodes import (
    ConsumerNode,
    consumer_content,
    offset_content,
    parse_consumer,
    parse_offset,
    parse_owner,
)
from pyklient.registry.subscription_patterns import BLACK_LIST, WHITE_LIST
from pyklient.registry.topic_nodes import (
    PartitionState,
    TopicNode,
    parse_hosted_partitions,
    parse_partition_state,
    parse_topic,
    parse_topic_config,
    partition_numbers,
    partition_state_content,
    topic_config_content,
    topic_content,
)
from tests.servers.fixtures import NewName
from tests.servers.zookeeper import connected
from tests.servers.zookeeper_kafka import ZooKeeperKafka


def plaintext(host: str, port: int) -> BrokerEndpoint:
    return BrokerEndpoint("PLAINTEXT", "PLAINTEXT", host, port)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"host1-1315436360737:host1:9092", BrokerNode(3, (plaintext("host1", 9092),), version=0)),
        (b"host1:9092", BrokerNode(3, (plaintext("host1", 9092),), version=0)),
        (
            b'{"jmx_port":9999,"timestamp":"1400","host":"h","version":1,"port":9092}',
            BrokerNode(3, (plaintext("h", 9092),), jmx_port=9999, timestamp_ms=1400, version=1),
        ),
        (
            b'{"jmx_port":-1,"timestamp":"1400","endpoints":["PLAINTEXT://h:1","SSL://[::1]:2"],"host":"h",'
            b'"version":2,"port":1}',
            BrokerNode(
                3,
                (plaintext("h", 1), BrokerEndpoint("SSL", "SSL", "::1", 2)),
                timestamp_ms=1400,
                version=2,
            ),
        ),
        (
            b'{"jmx_port":-1,"timestamp":"1400","endpoints":["PLAINTEXT://h:1"],"rack":"dc1","version":3}',
            BrokerNode(3, (plaintext("h", 1),), rack="dc1", timestamp_ms=1400, version=3),
        ),
        (
            b'{"listener_security_protocol_map":{"CLIENT":"SASL_SSL"},"endpoints":["CLIENT://h:1"],'
            b'"jmx_port":-1,"timestamp":"1400","host":null,"port":-1,"version":4,"rack":null}',
            BrokerNode(3, (BrokerEndpoint("CLIENT", "SASL_SSL", "h", 1),), timestamp_ms=1400, version=4),
        ),
        (
            b'{"features":{"f":{"min_version":1,"max_version":2}},"endpoints":["PLAINTEXT://h:1"],'
            b'"jmx_port":-1,"timestamp":"1400","version":5}',
            BrokerNode(3, (plaintext("h", 1),), timestamp_ms=1400, version=5),
        ),
    ],
)
def test_a_broker_node_is_read_in_every_version(content: bytes, expected: BrokerNode) -> None:
    assert parse_broker(3, content) == expected


@pytest.mark.parametrize("version", range(6))
def test_a_broker_node_is_written_in_every_version(version: int) -> None:
    endpoints = [plaintext("::1" if version >= 2 else "h", 9092)]
    if version >= 2:
        endpoints.append(BrokerEndpoint("SSL", "SSL", "h", 9093))
    if version >= 4:
        endpoints.append(BrokerEndpoint("CLIENT", "SASL_SSL", "h", 9094))
    rack = "dc1" if version >= 3 else None
    broker = BrokerNode(7, tuple(endpoints), rack, 9999 if version else -1, 1400, version)
    content = broker_content(broker)
    read = parse_broker(7, content)
    assert read == (broker if version else BrokerNode(7, tuple(endpoints), version=0))
    assert read.endpoint("SASL_SSL") == (endpoints[2] if version >= 4 else None)
    assert read.endpoint("PLAINTEXT") == endpoints[0]


def test_the_children_of_the_brokers_node_are_ids() -> None:
    assert broker_ids(["10", "2", "garbage", "-1"]) == [2, 10]
    assert broker_ids(None) == []


def test_a_topic_node_is_read_and_written_in_every_version() -> None:
    first = TopicNode({0: (1, 2), 10: (2,)}, version=1)
    assert topic_content(first) == b'{"version":1,"partitions":{"0":[1,2],"10":[2]}}'
    for node in (
        first,
        TopicNode({0: (1,)}, None, {0: (2,)}, {0: (1,)}, version=2),
        TopicNode({0: (1,)}, "AAAAAAAAAAAAAAAAAAAAAQ", version=3),
    ):
        assert parse_topic("t", topic_content(node)) == node
    assert parse_hosted_partitions("t", 1, b"4") == 4
    assert partition_numbers(["10", "2", "0-3", "x", "1-2"]) == [2, 3, 10]
    assert parse_topic_config("t", topic_config_content({"a.b": "c"})) == {"a.b": "c"}


def test_a_member_is_written_as_scala_writes_it_and_read_in_every_version() -> None:
    static = ConsumerNode({"clicks": 2, "views": 1}, timestamp_ms=1400)
    assert consumer_content(static) == (
        b'{"version":1,"subscription":{"clicks":2,"views":1},"pattern":"static","timestamp":"1400"}'
    )
    pattern = ConsumerNode({'a/b\\d"|c': 3}, WHITE_LIST, 1400)
    assert b'{"a\\/b\\\\d\\"|c":3}' in consumer_content(pattern)
    for node in (static, pattern, ConsumerNode({}, timestamp_ms=1400)):
        assert parse_consumer("g", "c", consumer_content(node)) == node
    empty = b'{"version":1,"subscription":{},"pattern":"white_list","timestamp":"1"}'
    assert parse_consumer("g", "c", empty).pattern == "static"
    oldest = {
        b'{ "t1": 2, "t2" : 1 }': ConsumerNode({"t1": 2, "t2": 1}, version=0),
        b"*4*white.*|other": ConsumerNode({"white.*|other": 4}, WHITE_LIST, version=0),
        b"!1!black*": ConsumerNode({"black*": 1}, BLACK_LIST, version=0),
    }
    assert [parse_consumer("g", "c", content) for content in oldest] == list(oldest.values())
    assert parse_owner("/o", b"group_host-1400-abcdef01-10") == "group_host-1400-abcdef01-10"
    assert parse_offset("/o", offset_content(2**40)) == 2**40


@pytest.mark.parametrize(
    ("parse", "content", "expected"),
    [
        (
            lambda c: parse_broker(3, c),
            b"\xff",
            "/brokers/ids/3 cannot be understood: the content is not text",
        ),
        (lambda c: parse_broker(3, c), b"", "the content is neither JSON nor <creator>:<host>:<port>"),
        (lambda c: parse_broker(3, c), b"{", "the content is not JSON"),
        (lambda c: parse_broker(3, c), b"{" * 100_000, "the content is not JSON"),
        (lambda c: parse_broker(3, c), b"{}", "'version' is missing"),
        (lambda c: parse_broker(3, c), b'{"version":1,"port":1}', "'host' is missing"),
        (
            lambda c: parse_broker(3, c),
            b'{"version":1,"host":"h","port":true}',
            "'port' is not a whole number",
        ),
        (lambda c: parse_broker(3, c), b'{"version":4,"endpoints":["h:1"]}', "'h:1' in 'endpoints' is not"),
        (lambda c: parse_broker(3, c), b'{"version":4,"endpoints":{}}', "'endpoints' is not a list of texts"),
        (lambda c: parse_broker(3, c), b'{"version":4}', "'endpoints' names no address"),
        (
            lambda c: parse_topic("t", c),
            b"[]",
            "/brokers/topics/t cannot be understood: the content is not a JSON",
        ),
        (lambda c: parse_topic("t", c), b'{"version":1}', "'partitions' is missing"),
        (lambda c: parse_topic("t", c), b'{"partitions":{"x":[1]}}', "'x' in 'partitions' is not a whole"),
        (lambda c: parse_topic("t", c), b'{"partitions":{"0":["1"]}}', "'partitions' has no list of whole"),
        (lambda c: parse_partition_state("t", 1, c), b'{"leader":1}', "partitions/1/state cannot be .*'isr'"),
        (lambda c: parse_topic_config("t", c), b'{"config":{"a":1}}', "a value in 'config' is not text"),
        (
            lambda c: parse_consumer("g", "c", c),
            b'{"version":1}',
            "/consumers/g/ids/c .*'subscription' is miss",
        ),
        (
            lambda c: parse_consumer("g", "c", c),
            b'{"subscription":{"t":0},"pattern":"static"}',
            "streams of 't'",
        ),
        (
            lambda c: parse_consumer("g", "c", c),
            b'{"subscription":{"t":1},"pattern":"x"}',
            "'pattern' is 'x'",
        ),
        (lambda c: parse_consumer("g", "c", c), b'{"subscription":{"t":1}}', "'pattern' is missing"),
        (
            lambda c: parse_consumer("g", "c", c),
            b'{"subscription":{"t":1,"u":1},"pattern":"black_list"}',
            "more than one entry",
        ),
        (
            lambda c: parse_offset("/o/1", c),
            b"1e3",
            "/o/1 cannot be understood: the content is not a whole number",
        ),
        (lambda c: parse_owner("/o/1", c), b"nobody", "the content is not the id of a consumer's thread"),
        (parse_controller, b"one", "/controller cannot be understood: the content is not a whole number"),
        (parse_cluster_id, b'{"id":5}', "/cluster/id cannot be understood: 'id' is not text"),
    ],
)
def test_garbage_is_an_error_that_names_the_node_the_fault_and_the_content(
    parse: Callable[[bytes], object], content: bytes, expected: str
) -> None:
    with pytest.raises(NodeContentError, match=expected) as raised:
        parse(content)
    assert str(raised.value).endswith("find the program that wrote this content, or delete the node")
    assert repr(content[:20])[1:-1] in str(raised.value)
    assert len(str(raised.value)) < 500


@pytest.mark.java
def test_what_brokers_write_is_read_and_written_alike(
    old_and_new_zookeeper_kafka: ZooKeeperKafka, new_name: NewName
) -> None:
    server = old_and_new_zookeeper_kafka
    is_old = server.version < (0, 9)
    topic = server.create_topic(new_name(), 2, retention_ms=60_000)
    with connected(server.zookeeper_connect) as client:

        def read(path: str) -> bytes:
            return client.get(path)[0]

        def same(written: bytes, path: str) -> bool:
            return bool(json.loads(written) == json.loads(read(path)))

        node = parse_broker(0, read("/brokers/ids/0"))
        host, port = server.bootstrap_servers.split(":")
        assert node.endpoint("PLAINTEXT") == plaintext(host, int(port))
        assert node.version == (1 if is_old else 5)
        assert same(broker_content(node), "/brokers/ids/0")
        assert broker_ids(client.get_children("/brokers/ids")) == [0]
        found = parse_topic(topic, read(f"/brokers/topics/{topic}"))
        assert dict(found.replicas) == {0: (0,), 1: (0,)}
        assert same(topic_content(found), f"/brokers/topics/{topic}")
        path = f"/brokers/topics/{topic}/partitions/1/state"
        epoch = parse_controller_epoch(read("/controller_epoch"))
        state = PartitionState(0, (0,), controller_epoch=epoch)
        assert parse_partition_state(topic, 1, read(path)) == state
        assert same(partition_state_content(state), path)
        config = f"/config/topics/{topic}"
        assert same(topic_config_content(parse_topic_config(topic, read(config))), config)
        assert parse_controller(read("/controller")) == 0
        stamp = int(json.loads(read("/controller"))["timestamp"])
        assert same(controller_content(0, stamp), "/controller")
        assert epoch >= 1
        if not is_old:
            cluster_id = parse_cluster_id(read("/cluster/id"))
            assert re.fullmatch(r"[A-Za-z0-9_-]{22}", cluster_id)
            assert same(cluster_id_content(cluster_id), "/cluster/id")
