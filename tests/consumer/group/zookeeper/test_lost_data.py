"""Clients of a ZooKeeper that has lost its data."""

import shutil
from contextlib import ExitStack
from pathlib import Path

import pytest

from pyklient import Producer
from pyklient.errors import RegistryError
from pyklient.registry.requests import Create, Read
from pyklient.registry.settings import ZooKeeperSettings
from pyklient.registry.zookeeper import ZooKeeper as Session
from tests.consumer.feed import Feed
from tests.consumer.group.test_groups import Reader
from tests.consumer.group.zookeeper.planted import PlantedCluster, topic_content
from tests.servers.process import wait_until
from tests.servers.reaper import Reaper
from tests.servers.zookeeper import ZooKeeper


@pytest.mark.uses("kafka-2.8.2")
def test_clients_of_a_zookeeper_without_data_say_so_and_recover_when_it_has_data_again(
    feed: Feed, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The servers close the connections of clients that have seen newer data, and do not say why."""
    reaper = Reaper()
    zookeeper = ZooKeeper(tmp_path / "zookeeper", reaper)
    zookeeper.start()
    with ExitStack() as stack:
        stack.callback(reaper.close)
        stack.callback(zookeeper.stop)
        before = stack.enter_context(PlantedCluster(zookeeper.hosts, feed))
        before.add_broker()
        before.nodes.create("/kafka")
        below = Session(ZooKeeperSettings(address=f"{zookeeper.hosts}/kafka", session_timeout=1))
        stack.callback(below.close)
        below.ask(Create("/a"), 10)
        topic = before.topic(1, "a")
        options = {"zookeeper_session_timeout_ms": 1000, "auto_commit_interval_ms": 100}
        producer = stack.enter_context(Producer(zookeeper=zookeeper.hosts, zookeeper_session_timeout_ms=1000))
        producer.send(topic, b"b").result(30)
        connector = stack.enter_context(before.connect("g", "a", consumer_timeout_ms=60_000, **options))
        reader = Reader(connector.stream(topic))
        stack.callback(connector.close)
        wait_until(lambda: before.offsets("g", topic) == {0: 2}, 60, "a commit")
        zookeeper.process.kill()
        shutil.rmtree(tmp_path / "zookeeper" / "data")
        zookeeper.start()
        wait_until(lambda: "no broker is registered" in caplog.text, 60, "the loss")
        assert "no server accepts the session any more, but a server accepts new" in caplog.text
        with pytest.raises(RegistryError, match="has no node /kafka, which the address names as the chroot"):
            below.ask(Read("/a"), 15)
        producer.send(topic, b"c").result(30)  # the producer continues with the brokers that it knows
        after = stack.enter_context(PlantedCluster(zookeeper.hosts, feed))
        after.add_broker()
        after.nodes.create(f"/brokers/topics/{topic}", topic_content(1), makepath=True)
        after.wait_owned("g", topic, "a-0")
        wait_until(lambda: after.offsets("g", topic) == {0: 3}, 60, "a commit")
        assert [message.value for message in reader.seen] == [b"a", b"b", b"a", b"b", b"c"]
        assert f"the committed offset 2 of {topic}-0 has been deleted from ZooKeeper" in caplog.text
        connector.close()
        reader.join()
