"""Share a topic among several workers that coordinate themselves through ZooKeeper. Scala consumers of the
same group would be members too.

Run: python examples/zookeeper/zookeeper_group.py host:port/chroot, with the address of ZooKeeper.
On brokers before Kafka 0.10.1, which cannot create a topic for the program, create an empty topic with
6 partitions by Kafka's kafka-topics.sh, and give its name as the second argument.
"""

import sys
import threading
import uuid
from contextlib import suppress

from pyklient import Admin, ConsumerConnector, Producer
from pyklient.errors import ClosedError

PARTITIONS, JOBS, WORKERS = 6, 300, 3


class Worker(threading.Thread):
    """A member of the group, with its own connector."""

    def __init__(self, zookeeper: str, topic: str) -> None:
        super().__init__(daemon=True)
        self.topic = topic
        self.done: set[tuple[int, int]] = set()
        self.connector = ConsumerConnector(
            zookeeper=zookeeper,
            coordination="zookeeper",
            group_id=topic,
            auto_offset_reset="earliest",
            auto_commit_interval_ms=500,
            rebalance_backoff_ms=500,
        )

    def run(self) -> None:
        """Work until the connector is shut down. What is done is committed automatically, to ZooKeeper.

        ClosedError is raised if the others did all jobs before this worker had joined the group.
        """
        with self.connector as connector, suppress(ClosedError):
            for message in connector.stream(self.topic):
                self.done.add((message.partition, message.offset))


def main(zookeeper: str, topic: str | None) -> None:
    """Send the jobs, and wait until each of them is done and committed."""
    with Admin(zookeeper=zookeeper) as admin, Producer(zookeeper=zookeeper) as producer:
        if topic is None:
            topic = f"jobs-{uuid.uuid4().hex[:8]}"
            admin.create_topic(topic, partitions=PARTITIONS)
        for number in range(JOBS):
            producer.send(topic, f"job {number}".encode(), partition=number % PARTITIONS)
    workers = [Worker(zookeeper, topic) for _ in range(WORKERS)]
    for worker in workers:
        worker.start()
    with Admin(zookeeper=zookeeper) as admin:
        while committed(admin, topic) < JOBS:
            threading.Event().wait(0.2)
    for worker in workers:
        worker.connector.shutdown()
        worker.join(10)
    done = set().union(*(worker.done for worker in workers))
    for number, worker in enumerate(workers, 1):
        print(f"worker {number}: {len(worker.done)} jobs")
    print(f"ok: {len(done)} of {JOBS} jobs")


def committed(admin: Admin, group: str) -> int:
    """Return the number of jobs that are committed."""
    if group not in [each.group_id for each in admin.groups(coordination="zookeeper")]:
        return 0
    return sum(each.committed or 0 for each in admin.describe_zookeeper_group(group).partitions.values())


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main(arguments[0] if arguments else "localhost:2181", arguments[1] if len(arguments) > 1 else None)
