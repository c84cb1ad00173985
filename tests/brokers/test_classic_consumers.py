"""Consumers from the properties of Kafka's classic consumers, on the brokers of record formats 0 and 1."""

from collections.abc import Sequence
from typing import Any

import pytest

from pyklient import ConsumerConnector, ConsumerTimeout, KeyedMessage, MessageTooLargeError, Producer
from pyklient.kernel import Message, decode
from pyklient.properties.profile import ProfileName
from pyklient.protocol.records import Compression
from pyklient.protocol.records.compression import decompress
from tests.brokers.release import Release
from tests.servers.fixtures import NewName
from tests.servers.pool import ServerPool
from tests.servers.zookeeper_kafka import ZooKeeperKafka


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(version, marks=pytest.mark.uses(f"kafka-{version}"))
        for version in ("0.8.2.2", "0.10.2.2")
    ],
)
def release(request: pytest.FixtureRequest, servers: ServerPool) -> Release:
    """The brokers of record formats 0 and 1, in turn."""
    return Release(request.param, servers.get_as(ZooKeeperKafka, f"kafka-{request.param}"))


def send(release: Release, topic: str, values: Sequence[bytes], **options: object) -> None:
    """Send *values* in one request."""
    given = {"metadata.broker.list": release.bootstrap, "request.required.acks": "1"}
    given |= {name.replace("_", "."): str(value) for name, value in options.items()}
    with Producer.from_properties(given, "0.8") as producer:
        producer.send(*(KeyedMessage(topic, value) for value in values))


def connect(release: Release, profile: ProfileName, group: str, **options: object) -> ConsumerConnector:
    """Return a connector whose properties have dots instead of the underscores of *options*."""
    assert isinstance(release.server, ZooKeeperKafka)
    where, name = ("zk.connect", "groupid") if profile == "0.7" else ("zookeeper.connect", "group.id")
    given: dict[str, object] = {
        where: release.server.zookeeper_connect,
        name: group,
        "consumer.timeout.ms": "1000",
        **{each.replace("_", "."): str(value) for each, value in options.items()},
    }
    return ConsumerConnector.from_properties(given, profile)


def until_timeout(connector: ConsumerConnector, topic: str) -> list[Message]:
    """Return the messages of *topic* until there is none for the time of ``consumer.timeout.ms``."""
    found: list[Message] = []
    with pytest.raises(ConsumerTimeout):
        found.extend(connector.stream(topic))
    return found


class Hooks:
    """The listener of Scala's ConsumerConnector, which records its calls."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def before_releasing_partitions(self, owned: dict[str, set[int]]) -> None:
        self.calls.append(owned)

    def before_starting_fetchers(self, consumer_id: str, assignment: dict[str, dict[int, str]]) -> None:
        assert all(thread.startswith(consumer_id) for each in assignment.values() for thread in each.values())
        self.calls.append({topic: sorted(each) for topic, each in assignment.items()})


@pytest.mark.parametrize("profile", ["0.7", "0.8", "0.10"])
def test_smallest_reads_all_in_small_chunks_and_largest_what_comes_later(
    release: Release, profile: ProfileName, new_name: NewName
) -> None:
    topic = release.new_topic(new_name(), partitions=2)
    values = [b"%d" % number + bytes(20) for number in range(300)]
    for first in range(0, 300, 50):
        send(release, topic, values[first : first + 50])
    fetch, queued, reset = (
        ("fetch_size", "queuedchunks_max", "autooffset_reset")
        if profile == "0.7"
        else ("fetch_message_max_bytes", "queued_max_message_chunks", "auto_offset_reset")
    )
    hooks = Hooks()
    with connect(release, profile, new_name(), **{fetch: 1000, queued: 1, reset: "smallest"}) as connector:
        connector.set_rebalance_listener(hooks)
        found = until_timeout(connector, topic)
    assert sorted(message.value or b"" for message in found) == sorted(values)
    for partition in range(2):
        offsets = [message.offset for message in found if message.partition == partition]
        assert offsets == list(range(len(offsets)))
    assert hooks.calls[-2:] == [{topic: [0, 1]}, {topic: {0, 1}}]
    with connect(release, profile, new_name(), **{reset: "largest"}) as connector:
        stream = connector.stream(topic)
        with pytest.raises(ConsumerTimeout):
            next(iter(stream))
        send(release, topic, [b"later"])
        assert next(iter(stream)).value == b"later"


def test_the_shallow_iterator_of_0_7_hands_out_compressed_messages(
    release: Release, new_name: NewName
) -> None:
    topic = release.new_topic(new_name())
    send(release, topic, [b"a", b"b", b"c"], compression_codec="gzip")
    send(release, topic, [b"d"])
    options = {"autooffset_reset": "smallest", "shallowiterator_enable": "true"}
    with connect(release, "0.7", new_name(), **options) as connector:
        compressed, plain = until_timeout(connector, topic)
    assert (compressed.offset, plain.offset, plain.value) == (2, 3, b"d")
    assert dict(compressed.headers) == {"compression.codec": b"gzip"}
    magic = 0 if release.version < (0, 10) else 1
    inner = decompress(Compression.GZIP, compressed.value or b"", magic, 10_000)
    assert [each.value for each in decode(inner, topic, 0, 0)] == [b"a", b"b", b"c"]


def test_a_message_above_the_limits_is_an_error_that_names_its_partition(
    release: Release, new_name: NewName
) -> None:
    """Since 0.10.1, a broker sends the first message of a response whole."""
    topic = release.new_topic(new_name())
    send(release, topic, [b"small"])
    send(release, topic, [bytes(200_000)])
    options = {"auto_offset_reset": "smallest", "fetch_message_max_bytes": 1_000, "fetch_max_bytes": 50_000}
    with connect(release, "0.10", new_name(), **options) as connector:
        loop = iter(connector.stream(topic))
        assert next(loop).value == b"small"
        if release.version < (0, 10, 1):
            with pytest.raises(MessageTooLargeError, match=rf"offset 1 of {topic}-0 has 2\d{{5}} bytes"):
                next(loop)
        else:
            assert next(loop).value == bytes(200_000)
