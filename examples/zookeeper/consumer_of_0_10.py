"""A consumer in the manner of Kafka 0.10: it keeps its offsets in Kafka, and a rebalance listener tells which
partitions it gets and gives back.

Run: python examples/zookeeper/consumer_of_0_10.py host:port/chroot, with the address of ZooKeeper.
On brokers before Kafka 0.10.1, which cannot create a topic for the program, create an empty topic with
2 partitions by Kafka's kafka-topics.sh, and give its name as the second argument.
"""

import sys
import uuid
from collections.abc import Mapping

from pyklient import Admin, ConsumerConnector, Producer

PARTITIONS, MESSAGES = 2, 200


class Listener:
    """The two hooks of Scala's rebalance listener."""

    def __init__(self) -> None:
        self.got: list[int] = []

    def before_releasing_partitions(self, partitions: Mapping[str, set[int]]) -> None:
        """Called before the connector gives *partitions* back, by topic."""

    def before_starting_fetchers(self, consumer_id: str, assignment: Mapping[str, Mapping[int, str]]) -> None:
        """Called with the streams of the partitions in *assignment*, by topic, before they are read."""
        self.got = sorted(number for numbers in assignment.values() for number in numbers)


def main(zookeeper: str, topic: str | None) -> None:
    """Send messages, and read them with a connector that is made of properties."""
    if topic is None:
        topic = f"ten-{uuid.uuid4().hex[:8]}"
        with Admin(zookeeper=zookeeper) as admin:
            admin.create_topic(topic, partitions=PARTITIONS)
    with Producer(zookeeper=zookeeper) as producer:
        producer.send_many(topic, [str(number).encode() for number in range(MESSAGES)])

    properties = {
        "zookeeper.connect": zookeeper,
        "group.id": f"group-{uuid.uuid4().hex[:8]}",
        "auto.offset.reset": "smallest",
        "offsets.storage": "kafka",
        "dual.commit.enabled": "false",
        "partition.assignment.strategy": "roundrobin",
        "auto.commit.interval.ms": "1000",
        "consumer.timeout.ms": "20000",
    }
    listener = Listener()
    connector = ConsumerConnector.from_properties(properties, profile="0.10")
    connector.set_rebalance_listener(listener)
    [stream] = connector.create_message_streams({topic: 1})[topic]
    read: list[int] = []
    for message in stream:
        read.append(int(message.value))
        if len(read) == MESSAGES:
            break
    connector.commit_offsets(retry_on_failure=True)
    connector.shutdown()
    assert sorted(read) == list(range(MESSAGES)), f"{len(read)} messages"
    assert listener.got == list(range(PARTITIONS)), listener.got
    print(f"ok: {len(read)} messages of partitions {listener.got}")


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main(arguments[0] if arguments else "localhost:2181", arguments[1] if len(arguments) > 1 else None)
