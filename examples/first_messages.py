"""Send three messages and read them back as a group.

Run: pyklient broker &     then     python examples/first_messages.py [host:port]
"""

import sys

from pyklient import ConsumerConnector, Producer


def main(bootstrap_servers: str) -> None:
    """Produce three messages, then consume them."""
    with Producer(bootstrap_servers) as producer:
        for page in ("/home", "/cart", "/paid"):
            producer.send("first-messages", page.encode(), key=b"user-1")

    seen = []
    with ConsumerConnector(bootstrap_servers, group_id="first", auto_offset_reset="earliest") as connector:
        for message in connector.stream("first-messages"):
            print(f"{message.topic}-{message.partition} at {message.offset}: {message.value.decode()}")
            seen.append(message.value)
            if len(seen) == 3:
                break
    print(f"ok: {len(seen)} messages")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092")
