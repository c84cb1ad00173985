"""Send and read Python objects as JSON, with encoders in the producer and decoders in the stream.

Run: pyklient broker &     then     python examples/json_events.py [host:port]
"""

import sys
from collections import Counter

from pyklient import ConsumerConnector, Producer
from pyklient.serialization import decode_json, decode_text, encode_json, encode_text

TOPIC = "json-events"


def main(bootstrap_servers: str) -> None:
    """Send orders as JSON with the customer as the key, and add them up."""
    orders = [("ada", 3), ("bob", 5), ("ada", 4), ("cyd", 1), ("bob", 2)]
    with Producer(
        bootstrap_servers, key_encoder=encode_text, value_encoder=encode_json, compression_type="zstd"
    ) as producer:
        for customer, count in orders:
            producer.send(TOPIC, {"customer": customer, "count": count}, key=customer)

    totals: Counter[str] = Counter()
    with ConsumerConnector(bootstrap_servers, group_id="totals", auto_offset_reset="earliest") as connector:
        streams = connector.create_message_streams(
            {TOPIC: 1}, key_decoder=decode_text, value_decoder=decode_json
        )
        for message in streams[TOPIC][0]:
            totals[message.key] += message.value["count"]
            if totals.total() == 15:
                break
    for customer, count in sorted(totals.items()):
        print(f"{customer}: {count}")
    print(f"ok: {totals.total()} ordered")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092")
