"""What is compared on Spark, as data: the jobs, who does each, and what pyklient is held to."""

from dataclasses import dataclass

__all__ = ["FLIGHTS", "ONE", "RANDOM", "SCENARIOS", "Scenario", "Topic"]


@dataclass(frozen=True)
class Topic:
    """Records to read, or to write: *rows* of them, of one kind."""

    name: str
    rows: int
    title: str


RANDOM = Topic("random", 8_000_000, "100 B")
FLIGHTS = Topic("flights", 4_000_000, "flights as JSON")
ONE = Topic("one", 1, "one row")
"""What a job takes before its first row and after its last: Spark starts Python processes to plan it."""


@dataclass(frozen=True)
class Scenario:
    """One job, done by *ours* and by *theirs*: keys of the functions in ``jobs``. *target* is how many times
    as many rows a second ours is to do; None for what is only shown. There are rows for some seconds."""

    title: str
    data: Topic
    ours: str
    theirs: str
    target: float | None
    share: float = 1.0
    """Of the data's rows."""

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
