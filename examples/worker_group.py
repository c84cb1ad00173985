"""Share a topic among several workers. Each worker commits only the jobs that it has done.

Run: pyklient broker &     then     python examples/worker_group.py [host:port]
"""

import sys
import threading
import uuid
from contextlib import suppress

from pyklient import Admin, ConsumerConnector, Producer
from pyklient.errors import ClosedError

PARTITIONS, JOBS, WORKERS = 6, 600, 3


class Worker(threading.Thread):
    """A member of the group, with its own connector."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        super().__init__(daemon=True)
        self.topic = topic
        self.done: set[tuple[int, int]] = set()
        self.connector = ConsumerConnector(
            bootstrap_servers,
            group_id=topic,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=500,
        )

    def run(self) -> None:
        """Work until the connector is shut down.

        ClosedError is raised if the others did all jobs before this worker had joined the group.
        """
        with self.connector as connector, suppress(ClosedError):
            stream = connector.stream(self.topic)
            for batch in stream.batches(max_records=50, timeout=0.2):
                self.done.update((message.partition, message.offset) for message in batch)
                if batch:
                    stream.commit_offsets()


def main(bootstrap_servers: str) -> None:
    """Send the jobs, and wait until each of them is done and committed."""
    topic = f"jobs-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers) as admin:
        admin.create_topic(topic, partitions=PARTITIONS)
        with Producer(bootstrap_servers) as producer:
            # The key chooses the partition, so that each worker gets jobs.
            jobs = [f"job {number}".encode() for number in range(JOBS)]
            producer.send_many(topic, jobs, keys=jobs)

        workers = [Worker(bootstrap_servers, topic) for _ in range(WORKERS)]
        for worker in workers:
            worker.start()
        while sum(position.offset for position in admin.group_offsets(topic).values()) < JOBS:
            threading.Event().wait(0.1)
        for worker in workers:
            worker.connector.shutdown()
            worker.join(10)

    # A rebalance may hand out a job twice, so count the distinct ones.
    done = set().union(*(worker.done for worker in workers))
    for number, worker in enumerate(workers, 1):
        print(f"worker {number}: {len(worker.done)} jobs")
    print(f"ok: {len(done)} of {JOBS} jobs")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092")
