"""One member of a group as a program: reads, tells what it got on standard output, and can be killed.

    python -m tests.system.member '{"bootstrap": "localhost:9092", "group": "g", "topics": ["t"], …}'

It prints one JSON line per message handed out. ``hold_at`` makes a stream's handler stay with its n-th
message for ever. It leaves the group when standard input says so, and ends at once when that closes.
"""

import contextlib
import json
import logging
import os
import sys
import threading
import time
from typing import Any

from pyklient import CommitError, ConsumerConnector, ConsumerTimeout, KafkaStream

_out = threading.Lock()


def tell(**event: object) -> None:
    """One line for the parent, whole even with several threads."""
    with _out:
        sys.stdout.write(json.dumps(event) + "\n")
        sys.stdout.flush()


def handle(connector: ConsumerConnector, number: int, stream: KafkaStream, job: dict[str, Any]) -> None:
    """Read one stream until the group has been left."""
    for count, message in enumerate(stream, 1):
        value = None if message.value is None else message.value.decode()
        at = time.monotonic()
        tell(stream=number, partition=message.partition, offset=message.offset, value=value, at=at)
        if count == job["hold_at"]:
            threading.Event().wait()
        if job["commit_each"]:
            try:
                connector.commit_offsets()
            except CommitError as error:
                tell(not_committed=str(error))


def obey(connector: ConsumerConnector) -> None:
    """Leave at the parent's word; vanish without one."""
    if sys.stdin.readline():
        connector.close()
    else:
        os._exit(1)


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    job = json.loads(sys.argv[1])
    with ConsumerConnector(
        job["bootstrap"], group_id=job["group"], auto_offset_reset="earliest", **job["options"]
    ) as connector:
        leaver = threading.Thread(target=obey, args=(connector,), daemon=True)
        leaver.start()
        wanted = dict.fromkeys(job["topics"], job["streams"])
        streams = [stream for group in connector.create_message_streams(wanted).values() for stream in group]
        threads = [
            threading.Thread(target=handle, args=(connector, number, stream, job), daemon=True)
            for number, stream in enumerate(streams)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        leaver.join()


if __name__ == "__main__":
    with contextlib.suppress(ConsumerTimeout):
        main()
