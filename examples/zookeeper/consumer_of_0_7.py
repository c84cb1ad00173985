"""A consumer in the manner of Kafka 0.7: two streams of a topic, and a thread for each stream.

Run: python examples/zookeeper/consumer_of_0_7.py host:port/chroot, with the address of ZooKeeper.
On brokers before Kafka 0.10.1, which cannot create a topic for the program, create an empty topic with
2 partitions by Kafka's kafka-topics.sh, and give its name as the second argument.
"""

import sys
import threading
import uuid

from pyklient import Admin, ConsumerConnector, KafkaStream, Producer

PARTITIONS, MESSAGES = 2, 200


def main(zookeeper: str, topic: str | None) -> None:
    """Send messages, and read them with a connector that is made of properties."""
    if topic is None:
        topic = f"seven-{uuid.uuid4().hex[:8]}"
        with Admin(zookeeper=zookeeper) as admin:
            admin.create_topic(topic, partitions=PARTITIONS)
    with Producer(zookeeper=zookeeper) as producer:
        for number in range(MESSAGES):
            producer.send(topic, str(number).encode(), partition=number % PARTITIONS)

    properties = {
        "zk.connect": zookeeper,
        "zk.connectiontimeout.ms": "10000",
        "groupid": f"group-{uuid.uuid4().hex[:8]}",  # begins at the smallest offset by default
        "consumer.timeout.ms": "20000",
    }
    connector = ConsumerConnector.from_properties(properties, profile="0.7")
    streams = connector.create_message_streams({topic: 2})[topic]
    read: list[int] = []
    all_read = threading.Event()

    def run(stream: KafkaStream) -> None:
        for message in stream:  # until the connector shuts down
            read.append(int(message.value))
            if len(read) == MESSAGES:
                all_read.set()

    threads = [threading.Thread(target=run, args=(stream,), daemon=True) for stream in streams]
    for thread in threads:
        thread.start()
    all_read.wait(30)
    connector.shutdown()
    for thread in threads:
        thread.join()
    assert sorted(read) == list(range(MESSAGES)), f"{len(read)} messages"
    print(f"ok: {len(streams)} streams got {len(read)} messages")


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main(arguments[0] if arguments else "localhost:2181", arguments[1] if len(arguments) > 1 else None)
