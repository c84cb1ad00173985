"""Adds headers to records. By these headers, consumers can recognize duplicates of a row.

A task that fails, or that Spark runs twice, sends its rows again. All duplicates of a row have the same four
headers, and no other row has them: the query or job, the batch, Spark's partition, and the number of the row
in the partition.
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
    """The query, batch and partition to which the rows of a task belong. Every attempt of the task has the
    same origin."""

    query: str
    batch: int
    partition: int

    def headers(self, first: int, count: int) -> list[Headers]:
        """Return the headers of *count* rows of the task, beginning with row *first*."""
        query, batch = (QUERY, self.query.encode()), (BATCH, b"%d" % self.batch)
        partition = (PARTITION, b"%d" % self.partition)
        return [[query, batch, partition, (ROW, b"%d" % row)] for row in range(first, first + count)]


def task_origin(query_name: str | None, token: str, batch_id: int | None = None) -> TaskOrigin:
    """Return the query, batch and partition of the task that runs in this process.

    In a streaming query, the query is *query_name* if the user gave one, otherwise the id of the streaming
    query, which stays the same after a restart from a checkpoint. The batch is *batch_id* or the number of
    the micro-batch.

    Outside of streaming queries, the query is *query_name*, and the batch is 0. Without a name, the query is
    *token*, a random name, and the batch is the number of Spark's stage, because several jobs may use one
    token.

    Raises ConfigurationError in a micro-batch if there is no *query_name*, and this process does not know the
    id of the streaming query. *token* cannot be used there, because it changes with each restart.
    """
    task = TaskContext.get()
    partition = task.partitionId() if task else 0
    query, batch = (
        (task.getLocalProperty(_QUERY_ID), task.getLocalProperty(_BATCH_ID)) if task else (None, None)
    )
    if batch_id is not None and query_name is None and query is None:
        raise ConfigurationError(
            "deduplication headers need the id of the streaming query, but Spark Connect does not pass it to "
            "foreachBatch: name the query with PartitionSender(…, query='…')"
        )
    if batch_id is None and batch is not None:
        batch_id = int(batch)
    if batch_id is not None:
        return TaskOrigin(query_name or query or token, batch_id, partition)
    return TaskOrigin(query_name or token, 0 if query_name or task is None else task.stageId(), partition)
