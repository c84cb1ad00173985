"""A consumer in the manner of Kafka 0.8: it reads what a filter selects until no message comes, and
commits by itself.

Run: python examples/zookeeper/consumer_of_0_8.py host:port/chroot, with the address of ZooKeeper.
On brokers before Kafka 0.10.1, which cannot create a topic for the program, create an empty topic with
2 partitions by Kafka's kafka-topics.sh, and give its name as the second argument.
"""

import sys
import uuid

from pyklient import Admin, ConsumerConnector, ConsumerTimeout, Producer, Whitelist

PARTITIONS, MESSAGES = 2, 200


def read(zookeeper: str, group: str, topic: str) -> int:
    """Return how many messages a consumer of *group* gets. It commits what it has read, and shuts down."""
    properties = {
        "zookeeper.connect": zookeeper,
        "group.id": group,
        "auto.offset.reset": "smallest",  # "largest" is the default
        "auto.commit.enable": "false",
        "consumer.timeout.ms": "1000",
        "socket.receive.buffer.bytes": "1048576",
    }
    connector = ConsumerConnector.from_properties(properties, profile="0.8")
    [stream] = connector.create_message_streams_by_filter(Whitelist(topic), 1)
    count = 0
    try:
        for _message in stream:
            count += 1
    except ConsumerTimeout:
        connector.commit_offsets()
    finally:
        connector.shutdown()
    return count


def main(zookeeper: str, topic: str | None) -> None:
    """Send messages, and read them twice in one group: the second consumer continues behind the first one."""
    if topic is None:
        topic = f"eight-{uuid.uuid4().hex[:8]}"
        with Admin(zookeeper=zookeeper) as admin:
            admin.create_topic(topic, partitions=PARTITIONS)
    group = f"group-{uuid.uuid4().hex[:8]}"
    with Producer(zookeeper=zookeeper) as producer:
        producer.send_many(topic, [str(number).encode() for number in range(MESSAGES)])
        producer.flush()
        first = read(zookeeper, group, topic)
        producer.send(topic, b"one more")
        producer.flush()
        second = read(zookeeper, group, topic)
    assert (first, second) == (MESSAGES, 1), (first, second)
    print(f"ok: {first} messages, and then {second}")


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main(arguments[0] if arguments else "localhost:2181", arguments[1] if len(arguments) > 1 else None)
