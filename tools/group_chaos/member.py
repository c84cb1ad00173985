"""One member of the group as a program. ``members`` starts it.

    python -m tools.group_chaos.member '{"bootstrap": "localhost:9092", "group": "g", "pattern": "t-.*", …}'

It prints a line for each message that it gets: the time, the topic, the partition and the offset. Lines on
standard input tell it to be slow once ("slow 9"), to read batches or single messages ("batches", "messages"),
or to leave ("leave"). It ends at once when standard input closes.
"""

import contextlib
import faulthandler
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

from pyklient import ClosedError, ConsumerConnector, Message

_BATCH = 10_000


class Reader:
    """Reads the stream of *connector* as the lines on standard input say."""

    def __init__(self, connector: ConsumerConnector) -> None:
        self._connector = connector
        self._slow = 0.0
        self._in_batches = False
        self._leaving = False

    def obey(self) -> None:
        """Read commands until standard input says "leave" or closes."""
        for line in sys.stdin:
            match line.split():
                case ["slow", seconds]:
                    self._slow = float(seconds)
                case [form] if form in ("batches", "messages"):
                    self._in_batches = form == "batches"
                case _:
                    self._leaving = True
                    self._connector.close()
                    return
        os._exit(1)

    def read(self, pattern: str) -> None:
        """Read until the connector is closed."""
        stream = self._connector.stream(pattern=pattern)
        while not self._leaving:
            if self._in_batches:
                for batch in stream.batches(_BATCH):
                    self._handle(batch)
                    if not self._in_batches:
                        break
            else:
                for message in stream:
                    self._handle([message])
                    if self._in_batches:
                        break

    def _handle(self, messages: Sequence[Message]) -> None:
        at = time.monotonic()
        lines = [f"{at:.4f} {each.topic} {each.partition} {each.offset}\n" for each in messages]
        sys.stdout.write("".join(lines))
        sys.stdout.flush()
        slow, self._slow = self._slow, 0.0
        time.sleep(slow)


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    faulthandler.register(signal.SIGUSR1)
    job: dict[str, Any] = json.loads(sys.argv[1])
    with ConsumerConnector(job["bootstrap"], group_id=job["group"], **job["options"]) as connector:
        reader = Reader(connector)
        threading.Thread(target=reader.obey, daemon=True).start()
        with contextlib.suppress(ClosedError):  # it is told to leave before it has joined
            reader.read(job["pattern"])


if __name__ == "__main__":
    main()
