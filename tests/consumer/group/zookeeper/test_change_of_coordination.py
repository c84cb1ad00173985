"""A group that changes from ZooKeeper's coordination to Kafka's, and back."""

import logging
import threading
from typing import Any, NamedTuple

import pytest

from pyklient import ClosedError, ConsumerConnector, KafkaTimeoutError
from tests.consumer.feed import wait_for
from tests.consumer.group.test_groups import Reader
from tests.consumer.group.zookeeper.planted import PlantedCluster

IN_KAFKA = {"offsets_storage": "kafka"}


class Kind(NamedTuple):
    """A kind of members: the ``consumer_id`` and further options of the old one and of the new one."""

    consumer_id: str | None
    old: dict[str, Any]
    new: dict[str, Any]


KINDS = {
    "kafka": Kind(None, {"coordination": "kafka", "zookeeper": None}, {"coordination": "kafka"}),
    "zookeeper": Kind("live", IN_KAFKA, IN_KAFKA),
}


@pytest.mark.parametrize(("before", "after"), [("zookeeper", "kafka"), ("kafka", "zookeeper")])
def test_a_member_waits_for_the_last_member_of_the_other_kind_and_goes_on_where_that_stopped(
    cluster: PlantedCluster, caplog: pytest.LogCaptureFixture, before: str, after: str
) -> None:
    topic, group = cluster.topic(1, "a"), cluster.feed.name()
    with cluster.connect(group, KINDS[before].consumer_id, **KINDS[before].old) as old:
        first = Reader(old.stream(topic))
        wait_for(lambda: len(first.seen) == 1, "the first message")
        new = cluster.connect(group, KINDS[after].consumer_id, **KINDS[after].new)
        second: list[Reader] = []
        with caplog.at_level(logging.INFO, "pyklient.consumer"):
            start = threading.Thread(target=lambda: second.append(Reader(new.stream(topic))))
            start.start()
            wait_for(lambda: f"waiting for members with coordination={before!r}" in caplog.text, "the wait")
        cluster.feed.send(topic, ["b"])
        wait_for(lambda: len(first.seen) == 2, "the second message")
        assert second == []
    first.join()
    start.join(30)
    cluster.feed.send(topic, ["c"])
    with new:
        wait_for(lambda: len(second[0].seen) == 1, "the third message")
    assert [message.value for message in second[0].seen] == [b"c"]


def test_a_member_of_kafka_does_not_wait_for_ever(cluster: PlantedCluster) -> None:
    topic, group = cluster.topic(1), cluster.feed.name()
    with cluster.connect(group, "old") as old:
        old.stream(topic)
        new: ConsumerConnector = cluster.connect(
            group, None, coordination="kafka", default_api_timeout_ms=4_000
        )
        with pytest.raises(KafkaTimeoutError, match=rf"after \d\.\d s: {group}_old\. A member"):
            new.stream(topic)


def test_a_member_of_zookeeper_waits_only_for_readers_of_the_same_topics_and_not_for_ever(
    cluster: PlantedCluster,
) -> None:
    topic, other, group = cluster.topic(1), cluster.topic(1), cluster.feed.name()
    with cluster.connect(group, None, coordination="kafka", zookeeper=None, client_id="live") as live:
        live.stream(topic)
        with cluster.connect(group, "apart") as apart:
            apart.stream(other)
        late = cluster.connect(group, "late", default_api_timeout_ms=4_000)
        with (
            late,
            pytest.raises(KafkaTimeoutError, match=r"coordination='kafka' after \d\.\d s: live-.*Stop"),
        ):
            late.stream(topic)


def test_a_group_that_kafka_does_not_know_is_no_reason_for_a_warning(
    cluster: PlantedCluster, caplog: pytest.LogCaptureFixture
) -> None:
    topic, used = cluster.topic(1, "a"), cluster.feed.name()
    with cluster.connect(used, None, coordination="kafka", zookeeper=None) as connector:
        Reader(connector.stream(topic))  # from now on, the broker has a topic of offsets
    with cluster.connect(cluster.feed.name(), "first", **IN_KAFKA) as first:
        first.stream(topic)
    assert "it is not known" not in caplog.text


def test_closing_ends_the_wait(cluster: PlantedCluster, caplog: pytest.LogCaptureFixture) -> None:
    topic, group = cluster.topic(1), cluster.feed.name()
    raised: list[ClosedError] = []

    def create_streams(connector: ConsumerConnector) -> None:
        try:
            connector.stream(topic)
        except ClosedError as error:
            raised.append(error)

    with cluster.connect(group, "old") as old, caplog.at_level(logging.INFO, "pyklient.consumer"):
        old.stream(topic)
        new = cluster.connect(group, None, coordination="kafka")
        start = threading.Thread(target=create_streams, args=(new,))
        start.start()
        wait_for(lambda: f"to leave: {group}_old" in caplog.text, "the wait")
        new.close()
        start.join(30)
        assert not start.is_alive()
    assert len(raised) == 1
