"""The jobs on Spark, the two clients for each, and the targets that pyklient must reach, as data."""

from dataclasses import dataclass

__all__ = ["FLIGHTS", "ONE", "RANDOM", "SCENARIOS", "Scenario", "Topic"]


@dataclass(frozen=True)
class Topic:
    """Records of one kind to read or write; *rows* is their number."""

    name: str
    rows: int
    title: str


RANDOM = Topic("random", 8_000_000, "100 B")
FLIGHTS = Topic("flights", 4_000_000, "flights as JSON")
ONE = Topic("one", 1, "one row")
"""Shows the cost of a job besides its rows: Spark starts Python processes to plan it."""


@dataclass(frozen=True)
class Scenario:
    """One job, done by *ours* and by *theirs*, which are names in ``jobs.JOBS``.

    *target* is the ratio of rows per second that ours must reach; None if the job has no target. There are
    enough rows for some seconds.
    """

    title: str
    data: Topic
    ours: str
    theirs: str
    target: float | None
    share: float = 1.0
    """The part of the data's rows that the job handles."""

    @property
    def rows(self) -> int:
        return int(self.data.rows * self.share)


_READ = 'read format("pyklient")', 'read format("kafka")'
_WRITE = 'write format("pyklient")', 'write format("kafka")'
_ROWS = "foreachPartition(PartitionSender)", "foreachPartition, confluent-kafka"
_BATCHES = "mapInArrow(PartitionSender)", "mapInArrow, confluent-kafka"

SCENARIOS = (
    Scenario("Read and aggregate, 100 B", RANDOM, *_READ, 2),
    Scenario("Read and aggregate, flights as JSON", FLIGHTS, *_READ, 2),
    Scenario("Read one row", ONE, *_READ, None),
    Scenario("Write, 100 B", RANDOM, *_WRITE, 1.5),
    Scenario("Write, flights as JSON", FLIGHTS, *_WRITE, 1.5, 0.5),
    Scenario("Write one row", ONE, *_WRITE, None),
    Scenario("foreachPartition, 100 B", RANDOM, *_ROWS, 1.2, 0.125),
    Scenario("foreachPartition, flights as JSON", FLIGHTS, *_ROWS, 1.2, 0.25),
    Scenario("Record batches, 100 B", RANDOM, *_BATCHES, 3),
    Scenario("Record batches, flights as JSON", FLIGHTS, *_BATCHES, 3, 0.5),
)
