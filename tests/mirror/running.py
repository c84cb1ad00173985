"""Runs a mirror in a thread, and compares the records of both sides."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyklient import Admin, Message, Mirror, read

__all__ = ["Run", "by_partition", "content", "running", "stored", "until"]

_PATIENCE = 60.0


class Run(threading.Thread):
    """A thread that runs *mirror*, and keeps the exception that ended it."""

    def __init__(self, mirror: Mirror) -> None:
        super().__init__(daemon=True)
        self.mirror = mirror
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.mirror.run()
        except BaseException as error:
            self.error = error


@contextmanager
def running(*args: Any, **options: Any) -> Iterator[Run]:
    """Run the Mirror with these arguments in a thread, and close it at the end of the block. ``close`` must
    raise the error of ``run``."""
    run = Run(Mirror(*args, **options))
    run.start()
    try:
        yield run
    finally:
        closing: BaseException | None = None
        try:
            run.mirror.close()
        except Exception as error:
            closing = error
        run.join(_PATIENCE)
        assert not run.is_alive()
        assert closing is run.error


def until(condition: Callable[[], Any], what: str) -> None:
    """Return when *condition* is true. Fail if that takes too long."""
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"never came: {what}"
        time.sleep(0.05)


def stored(bootstrap: str, topic: str) -> int:
    """Return the number of offsets of all partitions of *topic*; 0 if there is no such topic."""
    with Admin(bootstrap) as admin:
        if topic not in admin.topics():
            return 0
        return sum(admin.end_offsets(admin.partitions([topic])).values())


def content(message: Message) -> tuple[Any, ...]:
    """Return what a mirror must not change of *message*."""
    return message.key, message.value, message.timestamp_ms, tuple(message.headers)


def by_partition(bootstrap: str, topic: str) -> dict[int, list[tuple[Any, ...]]]:
    """Return the contents of the records of each partition of *topic*, in order."""
    found = defaultdict(list)
    for message in read(bootstrap, topic):
        found[message.partition].append(content(message))
    return dict(found)
