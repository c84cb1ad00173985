"""Tasks that fail once, when some of their rows are in Kafka already."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pyspark import TaskContext

from pyklient import SimpleConsumer
from tests.servers.process import wait_until

__all__ = ["fails_once"]


def fails_once(address: str, topic: str, stored: int) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """Return a function that passes rows, or batches of rows. The first attempt fails after the last row,
    when *stored* records are in the topic."""

    def rows_until_failure(rows: Iterable[Any]) -> Iterator[Any]:
        context = TaskContext.get()
        assert context is not None
        first_attempt = context.attemptNumber() == 0
        yield from rows
        if first_attempt:
            with SimpleConsumer(address) as consumer:
                wait_until(lambda: consumer.get_offsets_before(topic, 0, -1, 1)[0] >= stored, 60, "records")
            raise RuntimeError("this attempt fails")

    return rows_until_failure
