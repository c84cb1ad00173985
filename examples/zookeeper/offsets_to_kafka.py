"""Move the committed offsets of a group from ZooKeeper to Kafka, while the group reads, member by member.

Run: python examples/zookeeper/offsets_to_kafka.py host:port/chroot, with the address of ZooKeeper.
On brokers before Kafka 0.10.1, which cannot create a topic for the program, create an empty topic with
4 partitions by Kafka's kafka-topics.sh, and give its name as the second argument.
"""

import sys
import threading
import uuid
from typing import Any

from pyklient import Admin, ConsumerConnector, Producer

PARTITIONS, MEMBERS, EACH = 4, 2, 200

STEPS: list[tuple[str, dict[str, Any]]] = [
    ("in ZooKeeper", {"offsets_storage": "zookeeper"}),
    ("in both", {"offsets_storage": "kafka", "dual_commit_enabled": True}),
    ("in Kafka", {"offsets_storage": "kafka", "dual_commit_enabled": False}),
]


class Member(threading.Thread):
    """A member of the group. A step of the move restarts it with other options."""

    def __init__(self, zookeeper: str, topic: str, options: dict[str, Any]) -> None:
        super().__init__(daemon=True)
        self.seen: list[tuple[int, int]] = []
        self.connector = ConsumerConnector(
            zookeeper=zookeeper,
            coordination="zookeeper",
            group_id=topic,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=200,
            rebalance_backoff_ms=300,
            rebalance_max_retries=30,
            **options,
        )
        self.stream = self.connector.stream(topic)
        self.start()

    def run(self) -> None:
        """Read until the connector is closed, which commits what was read."""
        for message in self.stream:
            self.seen.append((message.partition, message.offset))

    def leave(self) -> None:
        """Close the connector, and wait until the loop has ended."""
        self.connector.close()
        self.join(30)


def main(zookeeper: str, topic: str | None) -> None:
    """Write in each step, and check at the end that each record was read once."""
    with Admin(zookeeper=zookeeper) as admin, Producer(zookeeper=zookeeper) as producer:
        if topic is None:
            topic = f"moved-{uuid.uuid4().hex[:8]}"
            admin.create_topic(topic, partitions=PARTITIONS)
        everyone: list[Member] = []
        members: list[Member | None] = [None] * MEMBERS
        for number, (where, options) in enumerate(STEPS, 1):
            for place, member in enumerate(members):
                if member is not None:
                    member.leave()
                members[place] = new = Member(zookeeper, topic, options)
                everyone.append(new)
            for record in range(EACH):
                producer.send(topic, b"record", partition=record % PARTITIONS)
            producer.flush()
            while sum(len(each.seen) for each in everyone) < number * EACH:
                threading.Event().wait(0.05)
            print(f"offsets {where}: {number * EACH} records read so far")
        for member in members:
            if member is not None:
                member.leave()
        offsets = [stored.offset for stored in admin.group_offsets(topic).values()]
    seen = [where for member in everyone for where in member.seen]
    assert len(seen) == len(set(seen)) == sum(offsets), "each record was read once, and is committed in Kafka"
    print(f"ok: {len(seen)} records, and the offsets are in Kafka")


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main(arguments[0] if arguments else "localhost:2181", arguments[1] if len(arguments) > 1 else None)
