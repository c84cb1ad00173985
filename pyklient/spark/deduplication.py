"""Adds headers to records, by which consumers recognize duplicates of a row.

A task that fails, or that Spark runs twice, sends its rows again. Four headers are the same in each duplicate
of a row and different in every other row: they name the query or job, the batch, Spark's partition, and the
row within that partition.
"""

from dataclasses import dataclass
from typing import Final

from pyspark import TaskContext

from pyklient.errors import ConfigurationError

__all__ = ["BATCH", "PARTITION", "QUERY", "ROW", "Headers", "TaskOrigin", "task_origin"]

QUERY: Final = "pyklient-query"
BATCH: Final = "pyklient-batch"
PARTITION: Final = "pyklient-partition"
ROW: Final = "pyklient-row"

_QUERY_ID: Final = "sql.streaming.queryId"
_BATCH_ID: Final = "streaming.sql.batchId"

Headers = list[tuple[str, bytes | None]]


@dataclass(frozen=True)
class TaskOrigin:
    """The query, batch and partition whose rows a task writes. Every attempt of the task has the same
    origin."""

    query: str
    batch: int
    partition: int

    def headers(self, first: int, count: int) -> list[Headers]:
        """Return the headers of *count* rows of the task, beginning with row *first*."""
        query, batch = (QUERY, self.query.encode()), (BATCH, b"%d" % self.batch)
        partition = (PARTITION, b"%d" % self.partition)
        return [[query, batch, partition, (ROW, b"%d" % row)] for row in range(first, first + count)]


def task_origin(query_name: str | None, token: str, batch_id: int | None = None) -> TaskOrigin:
    """Return the origin of the rows of the task that runs in this process.

    The query is *query_name* if the user gave one. Otherwise it is the id of the streaming query, which stays
    the same after a restart from its checkpoint. If there is no streaming query, the query is *token*, which
    was made for this write. The batch is that of the streaming query, or *batch_id* if the caller knows it.
    For a job that is no stream and has no name, the batch is the number of its stage, because one token may
    serve several jobs.

    Raises ConfigurationError in a micro-batch if this process cannot know the id of the query: a token would
    differ after a restart.
    """
    task = TaskContext.get()
    partition = task.partitionId() if task else 0
    query, batch = (
        (task.getLocalProperty(_QUERY_ID), task.getLocalProperty(_BATCH_ID)) if task else (None, None)
    )
    if batch_id is not None and query_name is None and query is None:
        raise ConfigurationError(
            "headers for deduplication need the id of the streaming query, and Spark Connect does not tell "
            "it to foreachBatch: name the query with PartitionSender(…, query='…')"
        )
    if batch_id is None and batch is not None:
        batch_id = int(batch)
    if batch_id is not None:
        return TaskOrigin(query_name or query or token, batch_id, partition)
    return TaskOrigin(query_name or token, 0 if query_name or task is None else task.stageId(), partition)
