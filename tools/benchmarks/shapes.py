"""Scenarios that compare pyklient with confluent-kafka, the fastest peer, on records of many shapes."""

from tools.benchmarks.groups import Group, Row
from tools.benchmarks.scenarios import Contender, Scenario
from tools.benchmarks.work import Compression

__all__ = ["GROUPS", "SHAPES", "START_UP"]

_BATCHES = "Batch sizes"
_ARROW = "Arrow batches by batch size"
_PARTITIONS = "Partitions"
_MESSAGES = "Message sizes"
_COMPRESSION = "Compression of flights as JSON"
_OTHERS = "Encoders, partitioners, acknowledgements and tombstones"
_SLOW = "A broker that is slower than the producer"
_BROKERS = "Brokers"
START_UP = "Start-up"

_STARTED = 5
"""The number of programs that a run starts, one after the other."""


def _pair(task: str, own: int, theirs: int) -> tuple[Contender, Contender]:
    """Return both clients, with the number of records of a run, which differs much with the shape."""
    return Contender("pyklient", "own", task, own), Contender("confluent-kafka", "confluent", task, theirs)


def _produce(own: int, theirs: int) -> tuple[Contender, Contender]:
    return _pair("produce", own, theirs)


def _consume(own: int, theirs: int) -> tuple[Contender, Contender]:
    return _pair("consume", own, theirs)


def _starts(task: str) -> tuple[Contender, Contender]:
    return (
        Contender("pyklient", "own_start", task, _STARTED),
        Contender("confluent-kafka", "confluent_start", task, _STARTED),
    )


def _of_batches(records: int, produced: tuple[int, int], consumed: tuple[int, int]) -> tuple[Row, Row]:
    noun = "record" if records == 1 else "records"
    name = f"{records:,} {noun}"
    produce, consume = (
        Scenario(f"{_BATCHES}: {task} {name}", each, batch_records=records, is_steady=task == "produce")
        for task, each in (("produce", _produce(*produced)), ("consume", _consume(*consumed)))
    )
    return Row(f"produce, {name}", produce, records), Row(f"consume, {name}", consume, records)


def _of_arrow(records: int, own: int, theirs: int) -> Row:
    name = f"{records:,} record{'s' if records > 1 else ''}"
    contenders = (
        Contender("pyklient", "own", "consume-arrow", own),
        Contender("confluent-kafka", "confluent", "consume", theirs),
    )
    return Row(name, Scenario(f"{_ARROW}: {name}", contenders, batch_records=records))


def _of_partitions(partitions: int, produced: tuple[int, int], consumed: tuple[int, int]) -> tuple[Row, Row]:
    name = f"{partitions:,} partition{'s' if partitions > 1 else ''}"
    produce = Scenario(
        f"{_PARTITIONS}: produce to {name}",
        _produce(*produced),
        field="key",
        partitions=partitions,
        is_steady=True,
    )
    consume = Scenario(
        f"{_PARTITIONS}: consume {name}",
        _consume(*consumed),
        field="key",
        partitions=partitions,
        batch_records=150,
    )
    return Row(f"produce, {name}", produce, partitions), Row(f"consume, {name}", consume, partitions)


def _of_messages(kilobytes: int, produced: tuple[int, int], consumed: tuple[int, int]) -> tuple[Row, Row]:
    name, size = f"{kilobytes} KB", kilobytes * 1_000
    produce = Scenario(f"{_MESSAGES}: produce {name}", _produce(*produced), size, is_steady=True)
    consume = Scenario(f"{_MESSAGES}: consume {name}", _consume(*consumed), size)
    return Row(f"produce, {name}", produce), Row(f"consume, {name}", consume)


def _of_compression(
    codec: Compression,
    produced: tuple[int, int],
    consumed: tuple[int, int],
    batch_records: int = 0,
) -> tuple[Row, Row]:
    name = f"{codec}, batches of one record" if batch_records else codec
    produce, consume = (
        Scenario(
            f"{_COMPRESSION}: {task} {name}",
            *(each, 300, "flights", codec),
            batch_records=batch_records,
            is_steady=task == "produce",
        )
        for task, each in (("produce", _produce(*produced)), ("consume", _consume(*consumed)))
    )
    return Row(f"produce, {name}", produce), Row(f"consume, {name}", consume)


def _of_brokers(brokers: int, produced: tuple[int, int], consumed: tuple[int, int]) -> tuple[Row, Row]:
    name = f"{brokers} broker{'s' if brokers > 1 else ''}"
    produce, consume = (
        Scenario(
            f"{_BROKERS}: {task} {name}",
            each,
            field="key",
            partitions=12,
            brokers=brokers,
            is_steady=task == "produce",
        )
        for task, each in (("produce", _produce(*produced)), ("consume", _consume(*consumed)))
    )
    return Row(f"produce, {name}", produce), Row(f"consume, {name}", consume)


GROUPS = (
    Group(
        _BATCHES,
        "Values have 100 B. The first column shows the number of records to which the options of each "
        "producer limit a batch. The consumers read batches of this size, which confluent-kafka has "
        "produced.",
        (
            *_of_batches(1, (40_000, 40_000), (200_000, 200_000)),
            *_of_batches(18, (600_000, 400_000), (1_500_000, 1_000_000)),
            *_of_batches(150, (2_000_000, 1_000_000), (4_000_000, 1_500_000)),
            *_of_batches(10_000, (3_000_000, 1_200_000), (6_000_000, 1_500_000)),
        ),
        axis="records in a batch",
    ),
    Group(
        _ARROW,
        "Values have 100 B. The first column shows the number of records in a batch. pyklient reads them "
        "with `arrow_batches`, and computes the total length of the values with `pyarrow.compute`. "
        "confluent-kafka makes a message object of each record.",
        (
            _of_arrow(1, 200_000, 200_000),
            _of_arrow(18, 2_500_000, 1_000_000),
            _of_arrow(150, 6_000_000, 1_500_000),
            _of_arrow(10_000, 12_000_000, 1_500_000),
        ),
    ),
    Group(
        _PARTITIONS,
        "Values have 100 B, and keys spread the records over all partitions. The consumers read batches of "
        "at most 150 records.",
        (
            *_of_partitions(1, (2_500_000, 900_000), (3_000_000, 1_000_000)),
            *_of_partitions(10, (2_500_000, 900_000), (3_000_000, 1_000_000)),
            *_of_partitions(100, (2_000_000, 700_000), (3_000_000, 1_000_000)),
            *_of_partitions(1_000, (1_000_000, 1_000_000), (3_000_000, 1_000_000)),
        ),
        axis="partitions",
    ),
    Group(
        _MESSAGES,
        "Values are random bytes. The other scenarios have the figures of 100 B and 1 KiB.",
        (
            *_of_messages(10, (50_000, 40_000), (100_000, 60_000)),
            *_of_messages(100, (5_000, 5_000), (10_000, 8_000)),
        ),
    ),
    Group(
        _COMPRESSION,
        "A flight has about 300 bytes. Batches have the size that is the client's setting in the other "
        "scenarios, except in the rows on batches of one record.",
        (
            *_of_compression("gzip", (150_000, 150_000), (600_000, 400_000)),
            *_of_compression("snappy", (800_000, 400_000), (1_500_000, 600_000)),
            *_of_compression("lz4", (800_000, 400_000), (1_500_000, 600_000)),
            *_of_compression("zstd", (800_000, 400_000), (1_500_000, 600_000)),
            *_of_compression("lz4", (15_000, 15_000), (60_000, 60_000), 1),
            *_of_compression("zstd", (15_000, 15_000), (60_000, 60_000), 1),
        ),
    ),
    Group(
        _OTHERS,
        "The encoder turns flights into JSON: `encode_json` of pyklient, or that of msgspec. It is the "
        "option `value_encoder` of pyklient, and the program with confluent-kafka calls it for each record. "
        "The partitioner takes the last byte of the key: pyklient calls it as `partitioner`, and the "
        "program with confluent-kafka, which cannot call one, passes its result as `partition`. A tombstone "
        "has a key and no value. With `acks=1`, producers are not idempotent.",
        (
            Row(
                "produce objects as JSON",
                Scenario(
                    "Encoders: produce objects as JSON",
                    _produce(400_000, 300_000),
                    300,
                    "objects",
                    is_steady=True,
                ),
            ),
            Row(
                "produce objects as JSON with msgspec",
                Scenario(
                    "Encoders: produce objects as JSON with msgspec",
                    _pair("produce-msgspec", 1_000_000, 500_000),
                    *(300, "objects"),
                    is_steady=True,
                ),
            ),
            Row(
                "produce with a Python partitioner",
                Scenario(
                    "Partitioners: produce with a Python partitioner, 100 B",
                    _pair("produce-partitioner", 800_000, 500_000),
                    field="key",
                    is_steady=True,
                ),
            ),
            Row(
                "produce with `acks=1`",
                Scenario(
                    "Acknowledgements: produce with acks=1, 100 B",
                    _produce(4_000_000, 1_200_000),
                    acks="1",
                    is_steady=True,
                ),
            ),
            Row(
                "produce tombstones",
                Scenario(
                    "Tombstones: produce", _produce(3_000_000, 900_000), field="tombstone", is_steady=True
                ),
            ),
            Row(
                "consume tombstones",
                Scenario("Tombstones: consume", _consume(4_000_000, 1_200_000), field="tombstone"),
            ),
        ),
    ),
    Group(
        _SLOW,
        "A proxy holds each request with records back for 20 ms. Both producers have 32 MiB for records. "
        "While this memory is full, `send` waits, and the program with confluent-kafka waits after a "
        "BufferError. The time depends on how many batches a request has.",
        (
            Row(
                "produce, 100 B",
                Scenario(
                    "Slow broker: produce, 100 B",
                    _produce(1_500_000, 1_000_000),
                    buffer_mib=32,
                    is_steady=True,
                    is_slow=True,
                ),
            ),
        ),
    ),
    Group(
        _BROKERS,
        "Values have 100 B, and keys spread the records over 12 partitions. Each partition has one replica. "
        "The 50 brokers are scripted: a single process in Python confirms all records and stores none. "
        "It limits the time, and its topic has 100 partitions.",
        (
            *_of_brokers(1, (2_500_000, 900_000), (3_000_000, 1_000_000)),
            *_of_brokers(3, (2_500_000, 900_000), (3_000_000, 1_000_000)),
            Row(
                "produce, 50 scripted brokers",
                Scenario(
                    f"{_BROKERS}: produce to 50 scripted brokers",
                    _produce(1_000_000, 100_000),
                    field="key",
                    partitions=100,
                    brokers=50,
                    is_steady=True,
                    is_scripted=True,
                ),
            ),
        ),
    ),
    Group(
        START_UP,
        "A program starts, imports the client, sends one record and waits for its acknowledgement, or joins "
        "a group and reads one record. The figures include the start of Python, which is the same "
        "for both, and end with the acknowledgement or the record.",
        (
            Row(
                "to the first acknowledgement",
                Scenario("Start-up: first acknowledgement", _starts("produce-first")),
            ),
            Row("to the first record", Scenario("Start-up: first record", _starts("consume-first"))),
        ),
        per="start",
    ),
)

SHAPES = tuple(row.scenario for group in GROUPS for row in group.rows)
