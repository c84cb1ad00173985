"""The contenders, the scenarios, and the targets that pyklient must reach, as data."""

from dataclasses import dataclass
from typing import Literal

from tools.benchmarks.work import Compression

__all__ = ["SCENARIOS", "TARGETS", "Contender", "Figure", "Scenario", "Target"]

Figure = Literal["CPU", "wall", "p50", "p99"]


@dataclass(frozen=True)
class Contender:
    """One client and its task.

    ``records`` is the number of 100-byte records that makes a run last a second or two; costs are compared
    per record. ``kernel`` selects the kernel of pyklient.
    """

    name: str
    client: str
    task: str
    records: int
    kernel: str = "compiled"

    @property
    def has_source(self) -> bool:
        """True if the task is to read or mirror a topic that is filled before."""
        return self.task.startswith(("consume", "mirror"))

    @property
    def mirrors(self) -> bool:
        """True if the task is to copy the topic to another cluster."""
        return self.task.startswith("mirror")


SEND = Contender("pyklient", "own", "produce", 5_000_000)
CALLBACK = Contender("pyklient, one callback per record", "own", "produce-callback", 2_000_000)
SEND_MANY = Contender("pyklient `send_many`", "own", "produce-many", 5_000_000)
SEND_ARROW = Contender("pyklient `send_arrow`", "own", "produce-arrow", 10_000_000)
CLASSIC = Contender("pyklient classic producer", "own", "produce-classic", 3_000_000)
SEND_PYTHON = Contender("pyklient, Python kernel", "own", "produce", 250_000, kernel="python")
CONFLUENT_SEND = Contender("confluent-kafka", "confluent", "produce", 1_200_000)
CONFLUENT_BATCH = Contender("confluent-kafka `produce_batch`", "confluent", "produce-batch", 1_200_000)
AIO_SEND = Contender("aiokafka", "aio_kafka", "produce", 150_000)
KAFKA_PYTHON_SEND = Contender("kafka-python", "kafka_python", "produce", 100_000)
JAVA_SEND = Contender("Java", "java", "produce", 1_600_000)

MESSAGES = Contender("pyklient", "own", "consume", 12_000_000)
BATCHES = Contender("pyklient `batches`", "own", "consume-batches", 12_000_000)
ARROW = Contender("pyklient `arrow_batches`", "own", "consume-arrow", 24_000_000)
MESSAGES_PYTHON = Contender("pyklient, Python kernel", "own", "consume", 400_000, kernel="python")
CONFLUENT_CONSUME = Contender("confluent-kafka", "confluent", "consume", 1_500_000)
AIO_CONSUME = Contender("aiokafka", "aio_kafka", "consume", 1_500_000)
KAFKA_PYTHON_POLL = Contender("kafka-python", "kafka_python", "consume", 600_000)
JAVA_CONSUME = Contender("Java", "java", "consume", 5_000_000)

PASSED_ON = Contender("pyklient, batches passed on", "own_mirror", "mirror-passed", 8_000_000)
DECODED = Contender("pyklient, records decoded", "own_mirror", "mirror-decoded", 8_000_000)
MIRROR_MAKER = Contender("Kafka's MirrorMaker", "mirror_maker", "mirror", 4_000_000)
BESIDE_SEND = Contender("pyklient, producer only", "own", "produce", 4_000_000)
BESIDE_CONSUME = Contender("pyklient, consumer only", "own", "consume", 8_000_000)

TRANSACTIONS = Contender("pyklient", "own_transactions", "transactions", 6_000_000)
WITHOUT_TRANSACTIONS = Contender("pyklient, no transactions", "own_transactions", "produce", 6_000_000)
CONFLUENT_TRANSACTIONS = Contender("confluent-kafka", "confluent_transactions", "transactions", 2_400_000)

LATENCIES = tuple(
    Contender(name, client, "latency", 10_000)
    for name, client in (
        ("pyklient", "own"),
        ("confluent-kafka", "confluent"),
        ("aiokafka", "aio_kafka"),
        ("kafka-python", "kafka_python"),
        ("Java", "java"),
    )
)


@dataclass(frozen=True)
class Scenario:
    """One table of the report, or a row of a table of shapes.

    ``share`` scales the number of records that its contenders send or read. ``partitions`` are those of the
    topic, and ``brokers`` those of the cluster. If ``is_scripted``, the brokers are not real: they confirm
    records, and store none. If ``is_steady``, CPU time does not include the start of the client, and counts
    from the restart of the clock. If ``is_slow``, producers reach the broker through a proxy that delays
    their requests. The other fields are those of a ``Job``.
    """

    title: str
    contenders: tuple[Contender, ...]
    value_size: int = 100
    values: str = "random"
    compression: Compression = "none"
    field: str = ""
    share: float = 1.0
    rate: int = 0
    transaction_records: int = 0
    batch_records: int = 0
    buffer_mib: int = 0
    acks: Literal["all", "1"] = "all"
    partitions: int = 4
    is_steady: bool = False
    is_slow: bool = False
    brokers: int = 1
    is_scripted: bool = False

    @property
    def has_source(self) -> bool:
        """True if contenders read or mirror a topic that is filled before."""
        return any(each.has_source for each in self.contenders)

    @property
    def mirrors(self) -> bool:
        """True if contenders copy the topic to another cluster."""
        return any(each.mirrors for each in self.contenders)

    def contender(self, name: str) -> Contender:
        return next(each for each in self.contenders if each.name == name)


_PRODUCERS = (SEND, SEND_ARROW, CONFLUENT_SEND, AIO_SEND, KAFKA_PYTHON_SEND, JAVA_SEND)
_CONSUMERS = (MESSAGES, ARROW, CONFLUENT_CONSUME, AIO_CONSUME, KAFKA_PYTHON_POLL, JAVA_CONSUME)
_FIELD_PRODUCERS = (SEND, SEND_ARROW, CONFLUENT_SEND)
_FIELD_CONSUMERS = (MESSAGES, ARROW, CONFLUENT_CONSUME)

PRODUCE = Scenario(
    "Produce, 100 B",
    (
        *(SEND, CALLBACK, SEND_MANY, SEND_ARROW, CLASSIC, SEND_PYTHON),
        *(CONFLUENT_SEND, CONFLUENT_BATCH, AIO_SEND, KAFKA_PYTHON_SEND, JAVA_SEND),
    ),
)
CONSUME = Scenario(
    "Consume, 100 B",
    (
        *(MESSAGES, BATCHES, ARROW, MESSAGES_PYTHON),
        *(CONFLUENT_CONSUME, AIO_CONSUME, KAFKA_PYTHON_POLL, JAVA_CONSUME),
    ),
)
PRODUCE_1K = Scenario("Produce, 1 KiB", _PRODUCERS, 1024, share=0.2)
CONSUME_1K = Scenario("Consume, 1 KiB", _CONSUMERS, 1024, share=0.25)
PRODUCE_KEYS = Scenario("Produce with keys, 100 B", _FIELD_PRODUCERS, field="key", share=0.5)
PRODUCE_HEADERS = Scenario("Produce with two headers, 100 B", _FIELD_PRODUCERS, field="headers", share=0.4)
PRODUCE_TIMES = Scenario("Produce with timestamps, 100 B", _FIELD_PRODUCERS, field="timestamp", share=0.5)
CONSUME_FIELDS = Scenario(
    "Consume keys, timestamps, headers and values, 100 B", _FIELD_CONSUMERS, field="all", share=0.3
)
PRODUCE_FLIGHTS = Scenario("Produce flights as JSON, zstd", _PRODUCERS, 300, "flights", "zstd", share=0.25)
CONSUME_FLIGHTS = Scenario("Consume flights as JSON, zstd", _CONSUMERS, 300, "flights", "zstd", share=0.25)
MIRROR_FLIGHTS = Scenario(
    "Mirror flights as JSON, zstd",
    (PASSED_ON, DECODED, MIRROR_MAKER, BESIDE_SEND, BESIDE_CONSUME),
    *(300, "flights", "zstd"),
    share=0.25,
)
LATENCY = Scenario("Latency at 1,000 records a second, 100 B", LATENCIES, rate=1_000)
LATENCY_10K = Scenario(
    "Latency at 10,000 records a second, 100 B",
    tuple(each for each in LATENCIES if each.client in ("own", "confluent", "java")),
    share=5,
    rate=10_000,
)

_TRANSACTIONS = (TRANSACTIONS, CONFLUENT_TRANSACTIONS)
TRANSACTIONS_OF_A_SECOND = Scenario(
    "Transactions of one second, 100 B",
    (TRANSACTIONS, WITHOUT_TRANSACTIONS, CONFLUENT_TRANSACTIONS),
    share=1.5,  # several transactions
)
TRANSACTIONS_OF_1000 = Scenario(
    "Transactions of 1,000 records, 100 B", _TRANSACTIONS, share=0.2, transaction_records=1_000
)
TRANSACTIONS_OF_10000 = Scenario(
    "Transactions of 10,000 records, 100 B", _TRANSACTIONS, share=0.5, transaction_records=10_000
)

SCENARIOS = (
    *(PRODUCE, CONSUME, PRODUCE_1K, CONSUME_1K),
    *(PRODUCE_KEYS, PRODUCE_HEADERS, PRODUCE_TIMES, CONSUME_FIELDS),
    *(PRODUCE_FLIGHTS, CONSUME_FLIGHTS, MIRROR_FLIGHTS, LATENCY, LATENCY_10K),
    *(TRANSACTIONS_OF_A_SECOND, TRANSACTIONS_OF_1000, TRANSACTIONS_OF_10000),
)


@dataclass(frozen=True)
class Target:
    """The median cost of *theirs* must be at least *factor* times that of *ours*, measured as *figure*."""

    what: str
    scenario: Scenario
    ours: str
    theirs: str
    figure: Figure
    factor: float


_BOTH = ("pyklient", "confluent-kafka")
_PERCENTILES: tuple[Figure, ...] = ("p50", "p99")
_THREE_TIMES_LESS: tuple[tuple[Figure, float], ...] = (("CPU", 3), ("wall", 1))

TARGETS = (
    Target("produce", PRODUCE, SEND.name, CONFLUENT_SEND.name, "CPU", 5),
    Target("produce, one callback per record", PRODUCE, CALLBACK.name, CONFLUENT_SEND.name, "CPU", 3),
    Target("produce", PRODUCE, SEND.name, CONFLUENT_SEND.name, "wall", 2),
    Target("produce", PRODUCE, SEND.name, JAVA_SEND.name, "wall", 2),
    Target("produce an Arrow table", PRODUCE, SEND_ARROW.name, CONFLUENT_SEND.name, "CPU", 10),
    Target("consume messages", CONSUME, MESSAGES.name, CONFLUENT_CONSUME.name, "CPU", 6),
    Target("consume", CONSUME, MESSAGES.name, JAVA_CONSUME.name, "wall", 2),
    Target("consume Arrow batches", CONSUME, ARROW.name, CONFLUENT_CONSUME.name, "CPU", 15),
    Target("produce 1 KiB", PRODUCE_1K, SEND.name, CONFLUENT_SEND.name, "CPU", 3),
    Target("consume 1 KiB", CONSUME_1K, MESSAGES.name, CONFLUENT_CONSUME.name, "CPU", 2.5),
    *(
        Target(f"latency at {scenario.rate:,} records a second", scenario, *_BOTH, figure, 1)
        for scenario in (LATENCY, LATENCY_10K)
        for figure in _PERCENTILES
    ),
    Target("mirror, decode and encode nothing", MIRROR_FLIGHTS, PASSED_ON.name, DECODED.name, "CPU", 5),
    Target("mirror, decode and encode", MIRROR_FLIGHTS, DECODED.name, BESIDE_SEND.name, "wall", 0.8),
    Target("mirror, decode and encode", MIRROR_FLIGHTS, DECODED.name, MIRROR_MAKER.name, "wall", 2),
    Target(
        "transactions of one second",
        *(TRANSACTIONS_OF_A_SECOND, TRANSACTIONS.name, WITHOUT_TRANSACTIONS.name, "wall", 0.9),
    ),
    *(
        Target(what, scenario, TRANSACTIONS.name, CONFLUENT_TRANSACTIONS.name, figure, factor)
        for what, scenario in (
            ("transactions of 1,000 records", TRANSACTIONS_OF_1000),
            ("transactions of 10,000 records", TRANSACTIONS_OF_10000),
        )
        for figure, factor in _THREE_TIMES_LESS
    ),
    Target("produce, Python kernel", PRODUCE, SEND_PYTHON.name, KAFKA_PYTHON_SEND.name, "CPU", 2),
    Target("consume, Python kernel", CONSUME, MESSAGES_PYTHON.name, KAFKA_PYTHON_POLL.name, "CPU", 2),
)
