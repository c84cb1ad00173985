"""Send with a producer of Kafka 0.7: asynchronous, with a queue, and with hooks that filter and count.

Run: pyklient broker &     then     python examples/classic_producer_0_7.py [host:port]
"""

import sys
from collections.abc import Mapping, Sequence

from pyklient import CallbackHandler, Producer, ProducerData, QueueItem, read


class Audit(CallbackHandler):
    """Drops clicks of robots before they are sent, and appends the number of clicks to the last batch."""

    def init(self, properties: Mapping[str, str]) -> None:
        self.topic = properties["topic"]
        self.accepted = 0

    def after_enqueue(self, item: QueueItem, added: bool) -> None:
        self.accepted += added

    def after_dequeuing_existing_data(self, item: QueueItem | None) -> Sequence[QueueItem]:
        return [] if item is None or item.data.startswith("robot") else [item]

    def last_batch_before_close(self) -> Sequence[QueueItem]:
        return [QueueItem(f"{self.accepted} clicks", self.topic)]


def main(bootstrap_servers: str) -> None:
    """Send four clicks, and read what has arrived."""
    topic = "clicks-0-7"
    properties = {
        "broker.list": f"1:{bootstrap_servers}",
        "producer.type": "async",
        "serializer.class": "kafka.serializer.StringEncoder",
        "queue.time": "1000",
        "queue.size": "5000",
        "queue.enqueueTimeout.ms": "-1",
        "batch.size": "100",
        "callback.handler.props": f"topic={topic}",
    }
    with Producer.from_properties(properties, "0.7", callback_handler=Audit()) as producer:
        producer.send(ProducerData(topic, ["user-1 home", "robot-1 home", "user-2 cart"]))
        producer.send(ProducerData(topic, "user-1 paid"))
    found = sorted((message.value or b"").decode() for message in read(bootstrap_servers, topic))
    print("\n".join(found))
    assert found == ["4 clicks", "user-1 home", "user-1 paid", "user-2 cart"]
    print(f"ok: {len(found)} messages")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092")
