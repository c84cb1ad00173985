"""One member of the group as a program. ``members`` starts it.

    python -m tools.group_chaos.member '{"bootstrap": "localhost:9092", "group": "g", "pattern": "t-.*", …}'

It prints a line for each message that it gets: the time, the topic, the partition and the offset. After each
rebalance it prints "owns", the time and the number of its partitions. It prints "problem" and a text if its
listener is told something that cannot be. Lines on standard input tell it to be slow once ("slow 9"), to read
batches or single messages ("batches", "messages"), or to leave ("leave"). It ends at once when standard input
closes.
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
from collections.abc import Collection, Sequence
from typing import Any

from pyklient import ClosedError, ConsumerConnector, ConsumerRebalanceListener, Message, TopicPartition

_BATCH = 10_000


_printing = threading.Lock()


def _print(lines: str) -> None:
    with _printing:
        sys.stdout.write(lines)
        sys.stdout.flush()


class Owned(ConsumerRebalanceListener):
    """Prints how many partitions this member owns, and what contradicts what it was told before."""

    def __init__(self) -> None:
        self._owned: set[TopicPartition] = set()

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Add *partitions*, which this member did not own."""
        if again := self._owned.intersection(partitions):
            _print(f"problem assigned again: {sorted(again)[:3]}\n")
        self._owned.update(partitions)
        _print(f"owns {time.monotonic():.4f} {len(self._owned)}\n")

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Remove *partitions*, which this member owned."""
        self._remove("revoked", partitions)

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        """Remove *partitions*, which this member owned."""
        self._remove("lost", partitions)

    def _remove(self, what: str, partitions: Collection[TopicPartition]) -> None:
        if unknown := set(partitions) - self._owned:
            _print(f"problem {what}, but not owned: {sorted(unknown)[:3]}\n")
        self._owned.difference_update(partitions)
        _print(f"owns {time.monotonic():.4f} {len(self._owned)}\n")


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
        _print("".join(f"{at:.4f} {each.topic} {each.partition} {each.offset}\n" for each in messages))
        slow, self._slow = self._slow, 0.0
        time.sleep(slow)


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    faulthandler.register(signal.SIGUSR1)
    job: dict[str, Any] = json.loads(sys.argv[1])
    with ConsumerConnector(job["bootstrap"], group_id=job["group"], **job["options"]) as connector:
        connector.set_rebalance_listener(Owned())
        reader = Reader(connector)
        threading.Thread(target=reader.obey, daemon=True).start()
        with contextlib.suppress(ClosedError):  # it is told to leave before it has joined
            reader.read(job["pattern"])


if __name__ == "__main__":
    main()
