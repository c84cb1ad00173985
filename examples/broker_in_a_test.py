"""Use a broker in this process, as a test does: with real sockets and files, and no server to install.

Run: python examples/broker_in_a_test.py
"""

import tempfile

from pyklient import Producer, read
from pyklient.broker import Broker


def main() -> None:
    """Write records, restart the broker in the same directory, and read them."""
    with tempfile.TemporaryDirectory() as directory:
        with Broker(data_dir=directory) as broker:
            broker.create_topic("clicks", partitions=2)
            with Producer(broker.bootstrap_servers) as producer:
                producer.send_many("clicks", [b"one", b"two", b"three"])
        with Broker(data_dir=directory) as broker:
            values = sorted(message.value for message in read(broker.bootstrap_servers, "clicks"))
    assert values == [b"one", b"three", b"two"]
    print(f"ok: {len(values)} messages after the restart")


if __name__ == "__main__":
    main()
