"""Write and read on a cluster of which only ZooKeeper is known.

Run: python examples/zookeeper/find_brokers.py host:port/chroot, with the address of ZooKeeper.
On brokers before Kafka 0.10.1, which cannot create a topic for the program, create an empty topic
with Kafka's kafka-topics.sh, and give its name as the second argument.
"""

import sys
import uuid

from pyklient import Admin, Producer, read


def main(zookeeper: str, topic: str | None) -> None:
    """Print the brokers that are registered in ZooKeeper, and send a few messages through them."""
    with Admin(zookeeper=zookeeper) as admin:
        cluster = admin.cluster()
        for broker in cluster.brokers:
            role = "controller" if broker.id == cluster.controller_id else "broker"
            print(f"{role} {broker.id} at {broker.host}:{broker.port}")
        if topic is None:
            topic = f"found-{uuid.uuid4().hex[:8]}"
            admin.create_topic(topic)
    with Producer(zookeeper=zookeeper) as producer:
        producer.send_many(topic, [str(number).encode() for number in range(100)])
    found = sum(1 for _ in read(topics=topic, zookeeper=zookeeper))
    print(f"ok: {found} messages")


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main(arguments[0] if arguments else "localhost:2181", arguments[1] if len(arguments) > 1 else None)
