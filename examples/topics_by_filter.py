"""Read all topics whose names match a pattern. A topic that is created later joins by itself.

Run: pyklient broker &     then     python examples/topics_by_filter.py [host:port]
"""

import sys
import uuid
from collections import Counter

from pyklient import ConsumerConnector, Producer, Whitelist

SHOPS = ("berlin", "lagos", "lima")


def main(bootstrap_servers: str) -> None:
    """Send the sales of each shop to a topic of its own, and count them per topic."""
    prefix = f"sales-{uuid.uuid4().hex[:8]}"
    sold: Counter[str] = Counter()
    with (
        Producer(bootstrap_servers) as producer,
        ConsumerConnector(
            bootstrap_servers,
            group_id=prefix,
            auto_offset_reset="earliest",
            metadata_max_age_ms=500,  # look for new topics this often; every 10 s by default
            heartbeat_interval_ms=200,
        ) as connector,
    ):
        producer.send(f"{prefix}.{SHOPS[0]}", b"book").result(10)
        (stream,) = connector.create_message_streams_by_filter(Whitelist(f"{prefix}[.].*"), 1)
        for message in stream:
            sold[message.topic.split(".")[1]] += 1
            if len(sold) == len(SHOPS):
                break
            producer.send(f"{prefix}.{SHOPS[len(sold)]}", b"book")  # the next shop opens
    for shop, count in sorted(sold.items()):
        print(f"{shop}: {count}")
    print(f"ok: {len(sold)} topics")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092")
