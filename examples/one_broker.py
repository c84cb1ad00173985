"""Read a partition with the simple consumer of Kafka's classic clients, which is bound to one broker.

The program finds the leader of the partition, fetches until the end of the log, and commits where it stopped.
Run: pyklient broker &     then     python examples/one_broker.py [host:port]
"""

import sys

from pyklient import (
    BrokerConsumer,
    FetchRequestBuilder,
    MessageTooLargeError,
    Producer,
    SimpleConsumer,
    TopicPartition,
)

TOPIC, GROUP = "one-broker", "one-broker-audit"
PARTITION = TopicPartition(TOPIC, 0)


def main(bootstrap_servers: str) -> None:
    """Write messages of different sizes, and read them from the broker that leads their partition."""
    with Producer(bootstrap_servers) as producer:
        for size in (10, 1_000, 100_000):
            producer.send(TOPIC, b"x" * size, partition=0)

    host, _, port = bootstrap_servers.rpartition(":")
    with SimpleConsumer.connect(host, int(port), client_id="audit") as any_broker:
        leader = any_broker.topic_metadata([TOPIC]).leader(PARTITION)
        coordinator = any_broker.find_coordinator(GROUP)
    if leader is None:
        raise SystemExit(f"{PARTITION} has no leader at the moment")

    with SimpleConsumer.connect(leader.host, leader.port, client_id="audit") as simple:
        end, total = read_to_the_end(simple)
    with SimpleConsumer.connect(coordinator.host, coordinator.port, client_id="audit") as simple:
        simple.commit_offsets(GROUP, {PARTITION: end})
        print("committed:", simple.fetch_offsets(GROUP, [PARTITION])[PARTITION])
    print(f"ok: {total} bytes up to offset {end}")


def read_to_the_end(simple: BrokerConsumer) -> tuple[int, int]:
    """Return the offset at the end of the partition, and the number of bytes of all messages before it."""
    offset = simple.earliest_or_latest_offset(TOPIC, 0, simple.EARLIEST)
    end = simple.earliest_or_latest_offset(TOPIC, 0, simple.LATEST)
    size, total = 2_000, 0
    builder = FetchRequestBuilder().max_wait(100).min_bytes(1)
    while offset < end:
        response = simple.fetch(builder.add_fetch(TOPIC, 0, offset, size).build())
        messages = response.message_set(TOPIC, 0)
        try:
            total += sum(len(message.value) for message in messages)
        except MessageTooLargeError:
            size *= 2  # a broker before Kafka 0.10.1 has cut off the first message
        else:
            offset = messages.next_offset
    return end, total


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092")
