"""Members of ZooKeeper groups while ZooKeeper stalls, restarts or is away."""

import logging
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pyklient import ConsumerConnector
from pyklient.errors import KafkaError
from tests.consumer.feed import Feed, wait_for
from tests.consumer.group.test_groups import Reader, spread
from tests.consumer.group.zookeeper.planted import PlantedCluster
from tests.servers.process import wait_until
from tests.servers.reaper import Reaper
from tests.servers.stalling_proxy import StallingProxy
from tests.servers.zookeeper import ZooKeeper

SESSION = 1.0


@pytest.fixture
def proxy(cluster: PlantedCluster) -> Iterator[StallingProxy]:
    with StallingProxy(cluster.address.partition("/")[0]) as proxy:
        yield proxy


def through(cluster: PlantedCluster, proxy: StallingProxy) -> str:
    """Return the address of *cluster* behind *proxy*."""
    return f"{proxy.address}/{cluster.address.partition('/')[2]}"


def test_a_member_whose_session_expires_loses_its_partitions_and_comes_back(
    cluster: PlantedCluster, proxy: StallingProxy, caplog: pytest.LogCaptureFixture
) -> None:
    topic = cluster.topic(2)
    behind = {"zookeeper": through(cluster, proxy), "zookeeper_session_timeout_ms": int(SESSION * 1000)}
    with cluster.connect("g", "a", **behind) as stalled, cluster.connect("g", "b") as other:
        one, two = Reader(stalled.stream(topic)), Reader(other.stream(topic))
        cluster.wait_owned("g", topic, "a-0", "b-0")
        spread(cluster.feed, topic, 2, "a")
        wait_for(lambda: (texts(one), texts(two)) == (["a0"], ["a1"]), "a message of each partition")
        proxy.stall()
        cluster.wait_owned("g", topic, "b-0", "b-0")
        cluster.feed.send(topic, ["while away"])
        wait_for(lambda: "while away" in texts(two), "the message that the new owner reads")
        # Nobody has told the stalled member. It goes on reading, and so hands the message out too.
        wait_for(lambda: "while away" in texts(one), "the message that the stalled member reads")
        with caplog.at_level(logging.WARNING, "pyklient.consumer"):
            proxy.resume()
            wait_for(lambda: "loses its partitions" in caplog.text, "the loss")
        cluster.wait_owned("g", topic, "a-0", "b-0")
        cluster.feed.send(topic, ["again"])
        wait_for(lambda: "again" in texts(one), "the message after the return")
    assert cluster.offsets("g", topic) == {0: 3, 1: 1}


def texts(reader: Reader) -> list[str]:
    return [message.value.decode() for message in reader.seen]


def test_a_member_that_is_cut_off_for_less_than_its_session_keeps_its_partitions(
    cluster: PlantedCluster, proxy: StallingProxy
) -> None:
    topic = cluster.topic(1)
    with cluster.connect(
        "g", "a", zookeeper=through(cluster, proxy), zookeeper_session_timeout_ms=5000
    ) as connector:
        reader = Reader(connector.stream(topic))
        session = cluster.nodes.get(f"/consumers/g/owners/{topic}/0")[1].owner_session_id
        cluster.feed.send(topic, ["a"])
        wait_for(lambda: texts(reader) == ["a"], "the first message")
        proxy.refuse()
        cluster.feed.send(topic, ["b"])
        wait_for(lambda: texts(reader) == ["a", "b"], "the message while it is cut off")
        cluster.nodes.create("/brokers/ids/7", cluster.nodes.get("/brokers/ids/0")[0])
        cluster.grow(topic, 2)  # which the member hears of after its return only
        proxy.resume()
        cluster.wait_owned("g", topic, "a-0", "a-0")
        assert cluster.nodes.get(f"/consumers/g/owners/{topic}/0")[1].owner_session_id == session


def test_a_member_closes_in_time_while_zookeeper_is_away_and_nothing_is_committed(
    cluster: PlantedCluster, proxy: StallingProxy, caplog: pytest.LogCaptureFixture
) -> None:
    topic = cluster.topic(1, "a")
    connector = cluster.connect("g", "a", zookeeper=through(cluster, proxy), auto_commit_interval_ms=60_000)
    reader = Reader(connector.stream(topic))
    wait_for(lambda: texts(reader) == ["a"], "the message")
    proxy.stall()
    began = time.monotonic()
    connector.close(timeout=5)
    assert time.monotonic() - began < 25
    reader.join()
    assert cluster.offsets("g", topic).get(0, 0) == 0
    assert "delivered again after a rebalance or a restart" in caplog.text


def test_a_commit_that_waited_for_zookeeper_does_not_take_back_what_the_next_owner_has_committed(
    cluster: PlantedCluster, proxy: StallingProxy
) -> None:
    topic = cluster.topic(1, "a", "b", "c")
    late = cluster.connect(
        "g",
        "a",
        zookeeper=through(cluster, proxy),
        zookeeper_session_timeout_ms=int(SESSION * 1000),
        enable_auto_commit=False,
    )
    with late, cluster.connect("g", "b") as other:
        stream = late.stream(topic)
        assert next(iter(stream)).value == b"a"
        second = Reader(other.stream(topic))
        proxy.stall()
        cluster.wait_owned("g", topic, "b-0")
        wait_for(lambda: len(second.seen) == 3, "the messages at the next owner")
        other.commit_offsets()
        assert cluster.offsets("g", topic) == {0: 3}
        failures: list[KafkaError] = []

        def commit() -> None:
            try:
                late.commit_offsets(timeout=20)
            except KafkaError as error:
                failures.append(error)

        committing = threading.Thread(target=commit)
        committing.start()
        wait_for(lambda: not is_connected(late), "the loss of the connection")
        proxy.resume()
        committing.join(25)
        wait_for(lambda: "g_a" in cluster.members("g"), "the return")
        assert cluster.offsets("g", topic) == {0: 3}


def test_a_commit_fails_in_time_while_zookeeper_is_away(
    cluster: PlantedCluster, proxy: StallingProxy
) -> None:
    topic = cluster.topic(1, "a")
    with cluster.connect(
        "g", "a", zookeeper=through(cluster, proxy), zookeeper_session_timeout_ms=10_000
    ) as connector:
        stream = connector.stream(topic)
        next(iter(stream))
        proxy.refuse()
        with pytest.raises(KafkaError, match=proxy.address):
            connector.commit_offsets(timeout=1)
        proxy.resume()
        connector.commit_offsets()
    assert cluster.offsets("g", topic) == {0: 1}


def is_connected(connector: ConsumerConnector) -> bool:
    registry = connector._client.registry
    assert registry is not None
    return registry.unreachable() is None


@pytest.mark.uses("kafka-2.8.2")
def test_a_group_survives_a_restart_of_zookeeper(feed: Feed, tmp_path: Path) -> None:
    reaper = Reaper()
    zookeeper = ZooKeeper(tmp_path / "zookeeper", reaper, tick_ms=1500)
    zookeeper.start()
    # A server that is starting may accept a connection and never answer. The client then tries again after
    # half of the time-out of its session, and the readers must wait for longer than that.
    options: dict[str, Any] = {"zookeeper_session_timeout_ms": 30_000, "consumer_timeout_ms": 120_000}
    try:
        with PlantedCluster(zookeeper.hosts, feed) as cluster:
            cluster.add_broker()
            topic = cluster.topic(2)
            with cluster.connect("g", "a", **options) as connector:
                reader = Reader(connector.stream(topic))
                with cluster.connect("g", "b", **options) as other:
                    second = Reader(other.stream(topic))
                    cluster.wait_owned("g", topic, "a-0", "b-0")
                    spread(feed, topic, 2, "before")
                    wait_for(lambda: len(reader.seen) == len(second.seen) == 1, "messages before it")
                    zookeeper.process.kill()
                    spread(feed, topic, 2, "away")
                    wait_for(lambda: len(reader.seen) == len(second.seen) == 2, "messages while it is away")
                    zookeeper.start()
                    for each in (connector, other):
                        wait_until(partial(is_connected, each), 60, "a connection")
                    wait_until(lambda: cluster.nodes.connected, 60, "a connection")
                    cluster.wait_owned("g", topic, "a-0", "b-0")
                cluster.wait_owned("g", topic, "a-0", "a-0")
                spread(feed, topic, 2, "back")
                wait_for(lambda: len(reader.seen) + len(second.seen) == 6, "messages after it")
            assert cluster.offsets("g", topic) == {0: 3, 1: 3}
    finally:
        zookeeper.stop()
        reaper.close()
