"""Kafka's own classes read the record bytes of pyklient, and pyklient reads theirs."""

from collections.abc import Iterator
from contextlib import ExitStack
from random import Random
from typing import Any

import pytest

from pyklient.errors import CorruptRecordError, UnsupportedCodecError
from pyklient.kernel import control_type, convert, encode_batch, read_records
from pyklient.protocol.records import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    NO_TIMESTAMP_TYPE,
    AbortedTransactions,
    Compression,
    NewRecord,
    RecordBatch,
    compress,
    iter_batches,
)
from pyklient.protocol.records.batch_header import batch_header
from pyklient.protocol.records.layout import BATCH_SIZE
from tests.kernel.oracle import KAFKAS, RecordsOracle, Refused
from tests.kernel.samples import ALLOWED, LEGACY_SAMPLES, SAMPLES

pytestmark = pytest.mark.java

_ids = [f"{magic}-{codec.name.lower()}" for magic, codec in ALLOWED]


@pytest.fixture(scope="module")
def oracles(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, RecordsOracle]]:
    """A process for each Kafka version."""
    with ExitStack() as stack:
        yield {
            kafka: stack.enter_context(RecordsOracle(kafka, tmp_path_factory.mktemp("oracle")))
            for kafka in KAFKAS
        }


@pytest.fixture(params=KAFKAS)
def oracle(request: pytest.FixtureRequest, oracles: dict[str, RecordsOracle]) -> RecordsOracle:
    """Each Kafka version in turn."""
    return oracles[request.param]


def samples(magic: int) -> list[NewRecord]:
    """Return records of every shape that the format has, the last of them too large for one block of any
    codec."""
    large = Random(magic).randbytes(100_000) + bytes(100_000)
    return [*(SAMPLES if magic == 2 else LEGACY_SAMPLES), NewRecord(1_700_000_000_500, b"large", large)]


def ours(data: bytes) -> list[dict[str, Any]]:
    """Return the records that pyklient reads in *data*, in the form of the oracle's answers."""
    return [_facts(batch) for batch in iter_batches(data)]


def _facts(batch: RecordBatch) -> dict[str, Any]:
    batch.verify()
    return {
        "magic": batch.magic,
        "codec": batch.compression.name.lower(),
        "last_offset": batch.last_offset,
        "timestamp_type": batch.timestamp_type,
        "max_timestamp": batch.max_timestamp,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "leader_epoch": batch.partition_leader_epoch,
        "transactional": batch.is_transactional,
        "control": batch.is_control,
        "records": [
            {
                "offset": record.offset,
                "timestamp": record.timestamp_ms,
                "key": record.key,
                "value": record.value,
                "headers": record.headers,
            }
            for record in read_records(batch)
        ],
    }


@pytest.mark.parametrize(("magic", "codec"), ALLOWED, ids=_ids)
def test_kafka_reads_what_we_write(magic: int, codec: Compression, oracle: RecordsOracle) -> None:
    records = samples(magic)
    written = encode_batch(records, magic=magic, compression=codec, base_offset=40)
    found = oracle.read(written)
    assert found == ours(written)
    stored = [record for batch in found for record in batch["records"]]
    assert [record["offset"] for record in stored] == list(range(40, 40 + len(records)))
    for record, sent in zip(stored, records, strict=True):
        assert record["timestamp"] == (sent.timestamp_ms if magic else -1)
        assert (record["key"], record["value"], record["headers"]) == (sent.key, sent.value, sent.headers)


@pytest.mark.parametrize(("magic", "codec"), ALLOWED, ids=_ids)
@pytest.mark.parametrize("timestamp_type", [CREATE_TIME, LOG_APPEND_TIME])
def test_we_read_what_kafka_writes(
    kernel: Any, magic: int, codec: Compression, timestamp_type: int, oracle: RecordsOracle
) -> None:
    kind = timestamp_type if magic else NO_TIMESTAMP_TYPE
    written = oracle.write(samples(magic), magic=magic, compression=codec, base_offset=7, timestamp_type=kind)
    found = oracle.read(written)
    assert ours(written) == found
    messages = kernel.decode(written, "t", 0, 0).hand_out(100)
    assert [(m.offset, m.timestamp_ms, m.key, m.value, m.headers) for m in messages] == [
        (r["offset"], r["timestamp"], r["key"], r["value"], r["headers"])
        for batch in found
        for r in batch["records"]
    ]
    assert {message.timestamp_type for message in messages} == {kind}


@pytest.mark.parametrize(("magic", "codec"), ALLOWED, ids=_ids)
def test_what_no_compressor_had_a_say_in_is_byte_for_byte_the_same(
    magic: int, codec: Compression, oracle: RecordsOracle
) -> None:
    """Compressors may find different matches, so for compressed batches only the bytes around the payload are
    compared."""
    records = samples(magic)
    written = oracle.write(
        records, magic=magic, compression=codec, base_offset=5, timestamp_type=CREATE_TIME if magic else -1
    )
    mine = encode_batch(records, magic=magic, compression=codec, base_offset=5)
    if not codec:
        assert mine == written
    elif magic == 2:
        assert (mine[:8], mine[12:17], mine[21:61]) == (written[:8], written[12:17], written[21:61])
    else:
        assert (mine[:8], mine[16 : 22 + 8 * magic]) == (written[:8], written[16 : 22 + 8 * magic])


@pytest.mark.parametrize("magic", [0, 1])
def test_zstd_is_refused_by_both_before_format_2(magic: int, oracle: RecordsOracle) -> None:
    kind = CREATE_TIME if magic else NO_TIMESTAMP_TYPE
    with pytest.raises(Refused, match="ZStandard compression is not supported"):
        oracle.write(LEGACY_SAMPLES, magic=magic, compression=Compression.ZSTD, timestamp_type=kind)
    with pytest.raises(UnsupportedCodecError, match="zstd needs record format 2"):
        encode_batch(LEGACY_SAMPLES, magic=magic, compression=Compression.ZSTD)


def test_producer_facts_are_the_same_bytes(oracle: RecordsOracle) -> None:
    facts: dict[str, Any] = {
        "producer_id": 1 << 40,
        "producer_epoch": 3,
        "base_sequence": 99,
        "transactional": True,
    }
    assert encode_batch(SAMPLES, partition_leader_epoch=6, **facts) == oracle.write(
        SAMPLES, leader_epoch=6, **facts
    )


def test_timestamps_of_every_distance_are_the_same_bytes(oracle: RecordsOracle) -> None:
    for exponent in range(62):
        records = [
            NewRecord(timestamp, None, b"x") for timestamp in (5, 5 + (1 << exponent), (1 << exponent) - 1, 0)
        ]
        written = oracle.write(records)
        assert encode_batch(records) == written
        assert ours(written) == oracle.read(written)


def test_lengths_around_every_varint_boundary_are_the_same_bytes(oracle: RecordsOracle) -> None:
    for boundary in (64, 128, 8192, 16384, 1 << 20):
        for size in range(boundary - 13, boundary + 2):
            records = [
                NewRecord(1, None, bytes(size)),
                NewRecord(1, bytes(size), None, (("h", bytes(size)),)),
            ]
            assert encode_batch(records) == oracle.write(records), size


def test_more_records_than_two_bytes_can_count_are_the_same_bytes(oracle: RecordsOracle) -> None:
    records = [NewRecord(1000 + index, None, b"%d" % index) for index in range(20_000)]
    written = oracle.write(records)
    assert encode_batch(records) == written
    [batch] = iter_batches(written)
    assert [record.value for record in read_records(batch)] == [record.value for record in records]


@pytest.mark.parametrize(
    "codec", [Compression.GZIP, Compression.SNAPPY, Compression.ZSTD], ids=lambda c: c.name
)
def test_a_batch_compressed_in_several_streams_is_read_as_kafka_reads_it(
    kernel: Any, codec: Compression, oracle: RecordsOracle
) -> None:
    written = in_parts(samples(2), codec)
    found = oracle.read(written)
    assert [record["value"] for batch in found for record in batch["records"]] == [
        record.value for record in samples(2)
    ]
    assert ours(written) == found
    messages = kernel.decode(written, "t", 0, 0).hand_out(100)
    assert [message.value for message in messages] == [record.value for record in samples(2)]


def test_a_batch_compressed_in_several_lz4_frames_is_refused_by_both(oracle: RecordsOracle) -> None:
    written = in_parts(samples(2), Compression.LZ4)
    with pytest.raises(Refused):
        oracle.read(written)
    with pytest.raises(CorruptRecordError, match="is incomplete, or has bytes after its end"):
        ours(written)


def in_parts(records: list[NewRecord], codec: Compression) -> bytes:
    """Return a batch whose records are compressed in three streams, divided in the middle of records."""
    payload = encode_batch(records)[BATCH_SIZE:]
    third = len(payload) // 3
    parts = [payload[:third], payload[third : 2 * third], payload[2 * third :]]
    compressed = b"".join(compress(codec, part) for part in parts)
    times = [record.timestamp_ms for record in records]
    header = batch_header(
        compressed,
        count=len(records),
        base_timestamp=times[0],
        max_timestamp=max(times),
        compression=codec,
    )
    return header + compressed


def test_kafkas_transaction_markers_are_recognised_and_passed_over(
    kernel: Any, oracle: RecordsOracle
) -> None:
    transaction = oracle.write(
        SAMPLES, base_offset=0, producer_id=9, producer_epoch=0, transactional=True, base_sequence=0
    )
    for commit in (True, False):
        marker = oracle.mark(commit=commit, base_offset=len(SAMPLES), producer_id=9)
        [batch] = iter_batches(marker)
        batch.verify()
        assert (batch.is_control, batch.is_transactional, control_type(batch.buffer)) == (
            True,
            True,
            int(commit),
        )
        aborted = AbortedTransactions([] if commit else [(9, 0)])
        chunk = kernel.decode(transaction + marker, "t", 0, 0, aborted=aborted)
        assert chunk.next_offset == len(SAMPLES) + 1
        assert len(chunk.hand_out(100)) == (len(SAMPLES) if commit else 0)


@pytest.mark.parametrize(
    "source", [(2, codec) for codec in Compression] + [(1, codec) for codec in list(Compression)[:4]], ids=str
)
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("from_offset", [0, 43, 90])
def test_conversion_for_old_consumers_is_kafkas(
    source: tuple[int, Compression], magic: int, from_offset: int, oracles: dict[str, RecordsOracle]
) -> None:
    oracle = oracles["3.9.1"]
    stored_magic, codec = source
    stored = b"".join(
        (
            encode_batch(samples(stored_magic), magic=stored_magic, compression=codec, base_offset=40),
            oracle.mark(commit=True, base_offset=47, producer_id=9) if stored_magic == 2 else b"",
            encode_batch(samples(stored_magic), magic=stored_magic, base_offset=48),
        )
    )
    if codec == Compression.ZSTD:
        with pytest.raises(UnsupportedCodecError):
            convert(stored, magic, from_offset=from_offset)
        return
    assert ours(convert(stored, magic, from_offset=from_offset)) == ours(
        oracle.lower(stored, magic, from_offset)
    )


def test_murmur2_is_kafkas(kernel: Any, oracle: RecordsOracle) -> None:
    random = Random(2)
    keys = [random.randbytes(random.randrange(40)) for _ in range(2000)]
    keys += [bytes(size) for size in range(20)] + [b"\xff" * size for size in range(20)]
    assert [kernel.murmur2(key) for key in keys] == oracle.murmur2(keys)
