"""What is compared: tasks by kinds of record by clients, as data."""

from dataclasses import dataclass

__all__ = ["SCENARIOS", "Scenario"]

PEERS = ("confluent-kafka", "aiokafka", "kafka-python")
OURS = ("pyklient", "pyklient-python")

RECORDS = {
    "pyklient": 2_000_000,
    "pyklient-python": 400_000,
    "confluent-kafka": 2_000_000,
    "aiokafka": 300_000,
    "kafka-python": 200_000,
    "java": 5_000_000,
}
"""Records a run, so that a run of each client lasts seconds: costs are compared per record."""


@dataclass(frozen=True)
class Scenario:
    """One table of the report."""

    title: str
    task: str
    value_size: int
    values: str = "random"
    compression: str = "none"
    clients: tuple[str, ...] = (*OURS, *PEERS)
    share: float = 1.0
    rate: int = 0

    def records(self, client: str) -> int:
        if self.rate:
            return self.rate * 10
        return int(RECORDS[client] * self.share)


SCENARIOS = (
    Scenario("produce, 100 B", "produce", 100, clients=(*OURS, *PEERS, "java")),
    Scenario("produce with a callback a record, 100 B", "produce-callback", 100, clients=OURS),
    Scenario("produce, 1 KiB", "produce", 1024, share=0.3, clients=(*OURS, *PEERS, "java")),
    Scenario("produce, flights as JSON, zstd", "produce", 300, "flights", "zstd", share=0.3),
    Scenario("consume, 100 B", "consume", 100, clients=(*OURS, *PEERS, "java")),
    Scenario("consume, 1 KiB", "consume", 1024, share=0.3, clients=(*OURS, *PEERS, "java")),
    Scenario("consume, flights as JSON, zstd", "consume", 300, "flights", "zstd", share=0.3),
    Scenario("latency at 1,000 records/s, 100 B", "latency", 100, rate=1_000),
)
