"""The leader epochs of committed offsets (KIP-320), compared with those that Java's consumer commits."""

import pytest

from pyklient import Admin, OffsetAndMetadata, Producer, TopicPartition
from tests.servers.fixtures import NewName, NewTopic
from tests.servers.java_consumer import JavaConsumer
from tests.servers.process import wait_until
from tests.servers.server import Server
from tests.system.reading import connector


def produce(bootstrap: str, topic: str) -> None:
    with Producer(bootstrap) as producer:
        producer.send_many(topic, [b"a", b"b", b"c"])


def stored(bootstrap: str, group: str, partition: TopicPartition) -> OffsetAndMetadata | None:
    with Admin(bootstrap) as admin:
        return admin.group_offsets(group).get(partition)


@pytest.mark.restarts
@pytest.mark.brokers(min="4.3", real=True)
def test_commits_have_the_leader_epochs_that_java_commits(
    any_broker: Server, bootstrap: str, new_topic: NewTopic, new_name: NewName
) -> None:
    topic, ours, javas = new_topic(), new_name(), new_name()
    partition = TopicPartition(topic, 0)
    produce(bootstrap, topic)
    any_broker.kill()
    any_broker.restart()  # the partition gets its leader anew
    produce(bootstrap, topic)

    committed = {}
    with connector(bootstrap, ours, enable_auto_commit=False) as reader:
        stream = reader.stream(topic)
        for _, message in zip(range(6), stream, strict=False):
            stream.commit_offsets()
            committed[message.offset + 1] = stored(bootstrap, ours, partition)
        first = committed[1]
        assert first is not None
        connector_commit = {partition: OffsetAndMetadata(3, "", first.leader_epoch)}
        reader.commit_offsets(connector_commit)
    epochs = [at.leader_epoch for at in committed.values() if at is not None]
    assert epochs == [epochs[0]] * 3 + [epochs[5]] * 3
    assert 0 <= epochs[0] < epochs[5]

    with JavaConsumer(bootstrap, javas, topic) as java:
        wait_until(lambda: len(java.messages) == 6, 60, "Java reads all")
        java.leave()
    assert stored(bootstrap, javas, partition) == committed[6]

    with JavaConsumer(bootstrap, ours, topic) as java:
        wait_until(lambda: len(java.messages) == 3, 60, "Java reads on")
        java.leave()
        assert java.messages == [(0, 3), (0, 4), (0, 5)]
    assert stored(bootstrap, ours, partition) == committed[6]
