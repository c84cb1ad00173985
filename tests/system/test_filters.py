"""Streams by filter on real brokers: topics that come, go and come again while a loop reads."""

from collections.abc import Iterable
from itertools import islice
from typing import Any, Final

import pytest
from confluent_kafka.cimpl import NewTopic

from pyklient import Admin, BrokerError, ConsumerConnector, KafkaStream, Producer, Whitelist
from pyklient.consumer.fetch import leader_lookup
from tests.consumer.offsets.stores import stored_in_zookeeper
from tests.servers.fixtures import NewName
from tests.servers.process import wait_until
from tests.servers.topics import admin as librdkafka
from tests.servers.zookeeper_kafka import ZooKeeperKafka

pytestmark = pytest.mark.slow

_OPTIONS: Final[dict[str, Any]] = {
    "auto_offset_reset": "earliest",
    "metadata_max_age_ms": 100,
    "heartbeat_interval_ms": 100,
    "fetch_max_wait_ms": 100,
    "consumer_timeout_ms": 30_000,
}

_FOR_MANY: Final[dict[str, Any]] = {"operation_timeout": 60, "request_timeout": 75}


@pytest.fixture(params=["in a group", "alone"])
def group(request: pytest.FixtureRequest, new_name: NewName) -> str | None:
    return new_name() if request.param == "in a group" else None


def fill(bootstrap: str, topic: str, count: int, text: str) -> None:
    """Write *count* records to the first partition of *topic*, which exists."""
    with Producer(bootstrap) as producer:
        producer.send_many(topic, [f"{text}{number}".encode() for number in range(count)], partition=0)


def read(stream: KafkaStream, count: int) -> list[str]:
    """Return the next *count* values, after which nothing comes. The last message is done then."""
    found = [message.value.decode() for message in islice(stream, count)]
    assert next(stream.batches(timeout=0)) == []
    return found


def create_all(bootstrap: str, names: Iterable[str]) -> None:
    """Create topics *names* at once. With ZooKeeper, that may take longer than the time-out of one topic."""
    new = [NewTopic(name, 1, 1) for name in names]
    for done in librdkafka(bootstrap).create_topics(new, **_FOR_MANY).values():
        done.result(90)


def delete_all(bootstrap: str, names: Iterable[str]) -> None:
    """Delete topics *names* at once."""
    for done in librdkafka(bootstrap).delete_topics(list(names), **_FOR_MANY).values():
        done.result(90)


def create_again(admin: Admin, topic: str) -> None:
    """Delete *topic*, and create it as soon as the broker accepts that."""
    admin.delete_topic(topic)

    def created() -> bool:
        try:
            admin.create_topic(topic, partitions=1, replication_factor=1)
        except BrokerError as error:
            if error.name != "TOPIC_ALREADY_EXISTS":
                raise
            return False
        return True

    wait_until(created, 60, f"{topic} created again", poll=0.02)


@pytest.mark.brokers(real=True)
def test_topics_join_and_leave_while_a_loop_reads(
    bootstrap: str, new_name: NewName, group: str | None
) -> None:
    prefix = new_name()
    first, second = f"{prefix}-1", f"{prefix}-2"
    with Admin(bootstrap) as admin, ConsumerConnector(bootstrap, group_id=group, **_OPTIONS) as connector:
        stream = connector.stream(pattern=f"{prefix}-.*")
        for topic in (first, second):
            admin.create_topic(topic, partitions=2, replication_factor=1)
            fill(bootstrap, topic, 20, topic)
            assert read(stream, 20) == [f"{topic}{number}" for number in range(20)]
        assert list(stream.topics) == [first, second]
        admin.delete_topic(first)
        wait_until(lambda: stream.topics == (second,), 60, "the end of the deleted topic")
        wait_until(lambda: first not in admin.topics(), 60, "the deletion")
        admin.create_topic(first, partitions=1, replication_factor=1)
        fill(bootstrap, first, 30, "again")
        assert read(stream, 30) == [f"again{number}" for number in range(30)]
        create_again(admin, first)
        fill(bootstrap, first, 5, "once more")
        assert read(stream, 5) == [f"once more{number}" for number in range(5)]
        fill(bootstrap, second, 1, "end")
        assert read(stream, 1) == ["end0"]


def test_a_new_topic_joins_soon_where_zookeeper_tells_of_it(
    zookeeper_kafka: ZooKeeperKafka, new_name: NewName, group: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader_lookup, "_LONGEST_UNWATCHED", 1_000.0)
    prefix, seldom = new_name(), {**_OPTIONS, "metadata_max_age_ms": 1_000_000}
    with ConsumerConnector(
        zookeeper=zookeeper_kafka.zookeeper_connect, group_id=group, **seldom
    ) as connector:
        stream = connector.stream(pattern=f"{prefix}-.*")
        for number in range(2):
            topic = zookeeper_kafka.create_topic(f"{prefix}-{number}", 1)
            fill(zookeeper_kafka.bootstrap_servers, topic, 2, topic)
            assert read(stream, 2) == [f"{topic}0", f"{topic}1"]


def test_topics_join_and_leave_a_zookeeper_group_while_a_loop_reads(
    zookeeper_kafka: ZooKeeperKafka, new_name: NewName
) -> None:
    """ZooKeeper keeps the offsets of a topic that is deleted. They do not count for a new topic of that
    name."""
    bootstrap, group, prefix = zookeeper_kafka.bootstrap_servers, new_name(), new_name()
    in_zookeeper: dict[str, Any] = {
        "zookeeper": zookeeper_kafka.zookeeper_connect,
        "coordination": "zookeeper",
    }
    quick = {**_OPTIONS, "rebalance_backoff_ms": 200, "auto_commit_interval_ms": 50}
    with Admin(bootstrap) as admin, ConsumerConnector(group_id=group, **in_zookeeper, **quick) as connector:
        stream = connector.stream(pattern=f"{prefix}-.*")
        first, second = f"{prefix}-1", f"{prefix}-2"
        for topic in (first, second):
            fill(bootstrap, zookeeper_kafka.create_topic(topic, 2), 20, topic)
            assert read(stream, 20) == [f"{topic}{number}" for number in range(20)]
        wait_until(
            lambda: stored_in_zookeeper(zookeeper_kafka, group, first).get(0) == "20", 60, "the commit"
        )
        admin.delete_topic(first)
        wait_until(lambda: stream.topics == (second,), 60, "the end of the deleted topic")
        wait_until(lambda: first not in admin.topics(), 60, "the deletion")
        fill(bootstrap, zookeeper_kafka.create_topic(first, 2), 30, "again")
        assert read(stream, 30) == [f"again{number}" for number in range(30)]
        names = {f"{prefix}-{number}" for number in range(100)}
        create_all(bootstrap, names - {first, second})
        wait_until(lambda: set(stream.topics) == names, 60, "a hundred topics")
        fill(bootstrap, second, 1, "end")
        assert read(stream, 1) == ["end0"]
    delete_all(bootstrap, names)


@pytest.mark.brokers(real=True)
def test_row_10_a_hundred_topics_at_once_are_read_and_internal_ones_are_not(
    bootstrap: str, new_name: NewName
) -> None:
    """``Whitelist(".+")`` does not select ``__consumer_offsets``, unless ``exclude_internal_topics`` is
    false."""
    prefix, group = new_name(), new_name()
    with ConsumerConnector(bootstrap, group_id=group, **_OPTIONS) as connector:
        streams = connector.create_message_streams_by_filter(Whitelist(f"{prefix}-.*"), 2)
        topics = {f"{prefix}-{number}" for number in range(100)}
        create_all(bootstrap, topics)
        with Producer(bootstrap) as producer:
            for topic in topics:
                producer.send(topic, topic.encode())
        wait_until(lambda: set(streams[0].topics) == topics, 60, "all topics")
        assert set(read(streams[0], 50) + read(streams[1], 50)) == topics
        for shown in (True, False):
            with ConsumerConnector(
                bootstrap, **{**_OPTIONS, "auto_offset_reset": "latest", "exclude_internal_topics": not shown}
            ) as everything:
                (stream,) = everything.create_message_streams_by_filter(Whitelist(".+"))
                assert topics <= set(stream.topics)
                assert ("__consumer_offsets" in stream.topics) is shown
        delete_all(bootstrap, topics)
