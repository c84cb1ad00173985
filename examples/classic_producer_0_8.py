"""Send with a producer of Kafka 0.8: keyed messages, a partitioner of your own, acknowledgements and retries.

Run: pyklient broker &     then     python examples/classic_producer_0_8.py [host:port]
"""

import random
import sys
import time
from typing import Any

from pyklient import KeyedMessage, Producer, read


class LastOctet:
    """Chooses the partition by the last number of an IP address."""

    def partition(self, key: Any, partition_count: int) -> int:
        """Return the partition for *key*, an address such as ``192.168.2.17``."""
        return int(key.rsplit(".", 1)[1]) % partition_count


def main(bootstrap_servers: str) -> None:
    """Send a hundred page visits, synchronously and asynchronously, and read them back."""
    topic = "visits-0-8"
    properties = {
        "metadata.broker.list": bootstrap_servers,
        "serializer.class": "kafka.serializer.StringEncoder",
        "partitioner.class": f"{__name__}:LastOctet",
        "request.required.acks": "1",
        "message.send.max.retries": "5",
    }
    queued = {"producer.type": "async", "queue.buffering.max.ms": "200", "batch.num.messages": "20"}
    for more in ({}, queued):
        with Producer.from_properties(properties | more, "0.8") as producer:
            for _ in range(50):
                address = f"192.168.2.{random.randrange(256)}"
                visit = f"{time.time_ns()},www.example.com,{address}"
                producer.send(KeyedMessage(topic, visit, key=address))
            producer.close()
            assert producer.dropped_count == 0
    found = list(read(bootstrap_servers, topic))
    assert len(found) == 100
    assert all(message.value and message.value.endswith(message.key or b"-") for message in found)
    print(f"ok: {len(found)} messages")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092")
