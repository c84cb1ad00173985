"""Learn in four ways if a message was stored: a callback, a result, an exception, the end of the block.

Run: pyklient broker &     then     python examples/delivery_reports.py [host:port]
"""

import sys
import uuid

from pyklient import Admin, DeliveryError, MessageTooLargeError, Producer

TOPIC = "delivery-reports"


def main(bootstrap_servers: str) -> None:
    """Send two messages that are stored and two that fail."""
    stored: list[int] = []
    with Producer(bootstrap_servers) as producer:
        producer.send(
            TOPIC, b"with a callback", on_delivery=lambda delivery: stored.append(delivery.result().offset)
        )
        at = producer.send(TOPIC, b"and wait").result(timeout=10)
        print(f"stored at {at.topic}-{at.partition}, offset {at.offset}")

        try:
            producer.send(TOPIC, bytes(2_000_000))
        except MessageTooLargeError as error:
            print(f"not sent: {error}")

    small = f"delivery-reports-{uuid.uuid4().hex[:8]}"
    with Admin(bootstrap_servers) as admin:
        admin.create_topic(small, config={"max.message.bytes": "1000"})
    try:
        with Producer(bootstrap_servers) as producer:
            producer.send(small, bytes(5_000))
    except DeliveryError as error:
        print(f"failed: {error}")
    else:
        sys.exit("the producer did not report the failed record")
    print(f"ok: {len(stored)} reported")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092")
