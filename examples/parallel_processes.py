"""Compute in four processes at the same time, in order per key, and commit only what is done.

Run: pyklient broker &     then     python examples/parallel_processes.py [host:port]
"""

import hashlib
import sys
import threading
import uuid

from pyklient import Admin, ConsumerConnector, Message, Producer

WORKERS, USERS, PASSWORDS = 4, 10, 60


def digest(message: Message) -> None:
    """Compute what takes a processor. This runs in a child process."""
    assert message.key is not None
    assert message.value is not None
    if message.value == b"":
        raise ValueError("an empty password")
    hashlib.scrypt(message.value, salt=message.key, n=2**10, r=8, p=1)


def main(bootstrap_servers: str) -> None:
    """Send the passwords, and handle each of them."""
    topic = f"passwords-{uuid.uuid4().hex[:8]}"
    with Producer(bootstrap_servers) as producer:
        for number in range(PASSWORDS):
            value = b"" if number == 7 else b"secret %d" % number
            producer.send(topic, value, key=b"user %d" % (number % USERS))

    failed: list[str] = []

    def note(message: Message, error: Exception) -> None:
        failed.append(f"offset {message.offset}: {error}")

    with (
        ConsumerConnector(
            bootstrap_servers, group_id=topic, auto_offset_reset="earliest", auto_commit_interval_ms=100
        ) as connector,
        Admin(bootstrap_servers) as admin,
    ):
        consumer = connector.parallel(topic, digest, workers=WORKERS, processes=True, on_error=note)

        def stop_at_the_end() -> None:
            while sum(position.offset for position in admin.group_offsets(topic).values()) < PASSWORDS:
                threading.Event().wait(0.1)
            consumer.stop()

        threading.Thread(target=stop_at_the_end).start()
        consumer.run()

    print("failed:", failed)
    print(f"ok: {PASSWORDS} passwords in {WORKERS} processes")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "localhost:9092")
