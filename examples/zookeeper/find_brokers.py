"""Write and read on a cluster of which only ZooKeeper is known.

Run: python examples/zookeeper/find_brokers.py host:port/chroot, with the address of ZooKeeper.
The brokers must be of Kafka 0.10.1 or later, because the program creates a topic.
"""

import sys
import uuid

from pyklient import Admin, Producer, read


def main(zookeeper: str) -> None:
    """Print the brokers that are registered in ZooKeeper, and send a few messages through them."""
    topic = f"found-{uuid.uuid4().hex[:8]}"
    with Admin(zookeeper=zookeeper) as admin:
        cluster = admin.cluster()
        for broker in cluster.brokers:
            role = "controller" if broker.id == cluster.controller_id else "broker"
            print(f"{role} {broker.id} at {broker.host}:{broker.port}")
        admin.create_topic(topic)
    with Producer(zookeeper=zookeeper) as producer:
        producer.send_many(topic, [str(number).encode() for number in range(100)])
    found = sum(1 for _ in read(topics=topic, zookeeper=zookeeper))
    print(f"ok: {found} messages")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "localhost:2181")
