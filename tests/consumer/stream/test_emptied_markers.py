"""Control batches whose record the log cleaner has removed, in every way to read."""

from collections.abc import Iterator

import pytest

from pyklient.consumer.bounded_read import BoundedRead, read
from pyklient.consumer.consumer_connector import ConsumerConnector
from pyklient.consumer.simple.simple_consumer import SimpleConsumer
from pyklient.errors import CorruptRecordError
from pyklient.kernel import encode_batch
from pyklient.protocol.records import (
    NewRecord,
)
from tests.consumer.fetch.leader import Leader
from tests.consumer.stream.bench import batch, marker, values

COMMITTED = [b"first", b"last"]


def sent(text: str, base: int, producer_id: int) -> bytes:
    return batch(text, base=base, transactional=True, producer_id=producer_id, producer_epoch=0)


def emptied(base: int, producer_id: int) -> bytes:
    """Return the batch that the log cleaner leaves of a marker that is the last batch of its producer."""
    return encode_batch(
        [], base_offset=base, control=True, transactional=True, producer_id=producer_id, producer_epoch=0
    )


@pytest.fixture
def leader() -> Iterator[Leader]:
    """A leader with a compacted log that has transactions, of which one is aborted."""
    log = [
        emptied(0, 5),
        sent("first", 1, 6),
        sent("aborted", 2, 5),
        emptied(3, 6),
        marker(4, 0),
        emptied(5, 5),
        sent("last", 6, 5),
        marker(7, 1),
    ]
    with Leader(b"".join(log), end=8, aborted=[(5, 2)]) as leader:
        yield leader


def reading(leader: Leader) -> BoundedRead:
    return read(leader.address, "t", isolation_level="read_committed", default_api_timeout_ms=10_000)


def test_a_read_passes_over_emptied_markers(leader: Leader) -> None:
    assert [message.value for message in reading(leader)] == COMMITTED


def test_an_arrow_read_passes_over_emptied_markers(leader: Leader) -> None:
    assert reading(leader).to_arrow().column("value").to_pylist() == COMMITTED


def test_loops_of_a_stream_pass_over_emptied_markers(leader: Leader) -> None:
    with ConsumerConnector(
        leader.address,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        consumer_timeout_ms=10_000,
    ) as connector:
        stream = connector.stream("t")
        messages = iter(stream)
        assert values([next(messages), next(messages)]) == ["first", "last"]
        (core,) = connector._streams
        assert next(stream.batches(timeout=0.2)) == []
        assert [at.offset for at in core.handed(in_hand=False).values()] == [8]


def test_a_simple_consumer_passes_over_emptied_markers(leader: Leader) -> None:
    with SimpleConsumer(leader.address) as consumer:
        fetched = consumer.fetch("t", 0, 0)
        committed = consumer.fetch("t", 0, 0, isolation_level="read_committed")
    assert values(list(fetched)) == ["first", "aborted", "last"]
    assert values(list(committed)) == ["first", "last"]
    assert fetched.next_offset == committed.next_offset == 8


def test_a_marker_that_says_nothing_is_an_error_that_names_its_own_offset() -> None:
    bad = encode_batch([NewRecord(0, None, b"")], base_offset=4, control=True, transactional=True)
    log = [sent("aborted", 0, 5), emptied(1, 6), sent("aborted", 2, 5), marker(3, 0), bad]
    with Leader(b"".join(log), end=5, aborted=[(5, 0)]) as leader:
        with pytest.raises(CorruptRecordError, match="t-0 at offset 4: the control batch at offset 4 has"):
            list(reading(leader))
        with pytest.raises(CorruptRecordError, match="t-0 at offset 4: the control batch at offset 4 has"):
            reading(leader).to_arrow()
