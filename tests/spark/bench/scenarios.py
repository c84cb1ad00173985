"""What is compared on Spark, as data: the jobs, who does each, and what pyklient is held to."""

from dataclasses import dataclass

__all__ = ["FLIGHTS", "RANDOM", "SCENARIOS", "Scenario", "Topic"]


@dataclass(frozen=True)
class Topic:
    """Records to read, or to write: *rows* of them, of one kind."""

    name: str
    rows: int
    title: str


RANDOM = Topic("random", 4_000_000, "100 B")
FLIGHTS = Topic("flights", 4_000_000, "flights as JSON")


@dataclass(frozen=True)
class Scenario:
    """One job, done by *ours* and by *theirs*: keys of the functions in ``jobs``. *target* is how many times
    as many rows a second ours is to do."""

    title: str
    data: Topic
    ours: str
    theirs: str
    target: float
    share: float = 1.0
    """Of the data's rows."""

    @property
    def rows(self) -> int:
        return int(self.data.rows * self.share)


def _both(title: str, ours: str, theirs: str, target: float, share: float = 1.0) -> list[Scenario]:
    return [
        Scenario(f"{title}, {data.title}", data, ours, theirs, target, share) for data in (RANDOM, FLIGHTS)
    ]


SCENARIOS = (
    *_both("Read and aggregate", 'read format("pyklient")', 'read format("kafka")', 2),
    *_both("Write", 'write format("pyklient")', 'write format("kafka")', 1.5, 0.5),
    *_both(
        "foreachPartition",
        "foreachPartition(PartitionSender)",
        "foreachPartition, confluent-kafka",
        1.2,
        0.25,
    ),
    *_both("Record batches", "mapInArrow(PartitionSender)", "mapInArrow, confluent-kafka", 3, 0.5),
)
