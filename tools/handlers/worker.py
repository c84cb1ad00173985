"""The program that is killed: it handles messages in parallel, and notes what it does in a journal.

    python -m tools.handlers.worker '{"bootstrap": …, "group": …, "topic": …, "journal": …}'

A line of the journal is written with one system call, so a SIGKILL leaves no half of it. It has ``begin`` or
``done``, the partition, the offset, the key and the time. The program ends when standard input closes.
"""

import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from functools import partial

from pyklient import ConsumerConnector, Message

_journals: dict[str, int] = {}


def handle(path: str, longest: float, message: Message) -> None:
    """Note the begin of the handler, wait for a random time, and note its end."""
    if path not in _journals:
        _journals[path] = os.open(path, os.O_WRONLY | os.O_APPEND)
    key = "" if message.key is None else message.key.decode()
    where = f"{message.partition} {message.offset} {key}"
    os.write(_journals[path], f"begin {where} {time.time()}\n".encode())
    time.sleep(random.uniform(0, longest))
    os.write(_journals[path], f"done {where} {time.time()}\n".encode())


def stop_with_input(stop: Callable[[], None]) -> None:
    """Call *stop* when standard input closes."""
    sys.stdin.read()
    stop()


def main() -> None:
    job = json.loads(sys.argv[1])
    with ConsumerConnector(
        job["bootstrap"], group_id=job["group"], auto_offset_reset="earliest", **job["options"]
    ) as connector:
        consumer = connector.parallel(
            job["topic"],
            partial(handle, job["journal"], job["longest"]),
            workers=job["workers"],
            processes=job["processes"],
        )
        threading.Thread(target=stop_with_input, args=(consumer.stop,), daemon=True).start()
        consumer.run()


if __name__ == "__main__":
    main()
