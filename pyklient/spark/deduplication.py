"""Headers that tell copies of a row apart from other rows.

A task that fails, or is run twice, sends its rows again. These four headers are the same in each copy, and in
no other row: which query or job wrote it, in which batch, as which row of which of Spark's partitions.
"""

from dataclasses import dataclass
from typing import Final

from pyspark import TaskContext

from pyklient.errors import ConfigurationError

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


def origin(named: str | None, token: str, batch_id: int | None = None) -> Origin:
    """That of the task that runs here.

    The query is *named* by the user, else a streaming query's id, which a restart from its checkpoint keeps,
    else *token*, made for this write alone. The batch is a streaming query's, *batch_id* where Spark has said
    it; in a job that is none, and that nobody has named, it is the stage, for one token may serve several.

    Raises ConfigurationError in a micro-batch of a query whose id is not to be known here: a token would be
    another one after a restart.
    """
    task = TaskContext.get()
    partition = task.partitionId() if task else 0
    query, batch = (
        (task.getLocalProperty(_QUERY_ID), task.getLocalProperty(_BATCH_ID)) if task else (None, None)
    )
    if batch_id is not None and named is None and query is None:
        raise ConfigurationError(
            "headers for deduplication need the streaming query's id, and Spark Connect does not tell it to "
            "foreachBatch: name the query, PartitionSender(…, query='…')"
        )
    if batch_id is None and batch is not None:
        batch_id = int(batch)
    if batch_id is not None:
        return Origin(named or query or token, batch_id, partition)
    return Origin(named or token, 0 if named or task is None else task.stageId(), partition)
