"""Headers that tell copies of a row apart from other rows.

A task that fails, or is run twice, sends its rows again. These four headers are the same in each copy, and in
no other row: which query or job wrote it, in which batch, as which row of which of Spark's partitions.
"""

from dataclasses import dataclass
from typing import Final

from pyspark import TaskContext

__all__ = ["BATCH", "PARTITION", "QUERY", "ROW", "Origin", "origin"]

QUERY: Final = "pyklient-query"
BATCH: Final = "pyklient-batch"
PARTITION: Final = "pyklient-partition"
ROW: Final = "pyklient-row"

_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"

Headers = list[tuple[str, bytes | None]]


@dataclass(frozen=True)
class Origin:
    """Where the rows of one task come from, whichever attempt it is."""

    query: str
    batch: int
    partition: int

    def headers(self, first: int, count: int) -> list[Headers]:
        """Those of *count* rows, of which the first is row *first* of the task."""
        query, batch = (QUERY, self.query.encode()), (BATCH, b"%d" % self.batch)
        partition = (PARTITION, b"%d" % self.partition)
        return [[query, batch, partition, (ROW, b"%d" % row)] for row in range(first, first + count)]


def origin(named: str | None, token: str) -> Origin:
    """That of the task that runs here.

    The query is *named* by the user, else a streaming query's id, which a restart from its checkpoint keeps,
    else *token*, made for this write alone. The batch is a streaming query's; in a job that is none, and that
    nobody has named, it is the stage, for one token may serve several.
    """
    task = TaskContext.get()
    if task is None:
        return Origin(named or token, 0, 0)
    query, batch = task.getLocalProperty(_QUERY_ID), task.getLocalProperty(_BATCH_ID)
    if query is not None and batch is not None:
        return Origin(named or query, int(batch), task.partitionId())
    return Origin(named or token, 0 if named else task.stageId(), task.partitionId())
