"""SentRecords knows up to which source offset all records are confirmed, and which records have failed."""

from array import array

import pytest

from pyklient import KafkaError, TopicPartition, kernel
from pyklient.kernel import Batch, Message, append_messages
from pyklient.mirror.sent_records import ConfirmedRecords, Copies, FailedRecords, SentRecords
from tests.kernel.appending import Bench

SOURCE = TopicPartition("clicks", 0)
TOO_LARGE = KafkaError("too large")


@pytest.fixture
def bench() -> Bench:
    return Bench(kernel)


def open_batches(bench: Bench, partitions: int) -> list[Batch]:
    bench.open(partitions)
    found = [bench.appender.current_batch("clicks", number) for number in range(partitions)]
    return [each for each in found if each is not None]


def copied(bench: Bench, offsets: list[int], *, keep: bool) -> Copies:
    """Append a message with each of *offsets* as a key."""
    messages = [Message("clicks", 0, offset, 5, 0, b"%d" % offset, b"v") for offset in offsets]
    taken, runs, targets = append_messages(bench.appender, messages, 0, keep)
    assert taken == len(offsets)
    return Copies(array("q", offsets), runs, targets)


def consecutive(bench: Bench, first: int, stop: int) -> Copies:
    return copied(bench, list(range(first, stop)), keep=True)._replace(offsets=range(first, stop))


def add(records: SentRecords, copies: Copies) -> None:
    first, last = copies.offsets[0], copies.offsets[-1]
    records.add([(SOURCE, first, last + 1, copies)])


def done(bench: Bench, batch: Batch, base_offset: int, failed: slice = slice(0)) -> None:
    """Give every record of *batch* a result: an error to those at *failed*."""
    bench.appender.seal_batch(batch)
    first, stop, _ = failed.indices(batch.count)
    for begin, end, error in ((0, first, None), (first, stop, TOO_LARGE), (stop, batch.count, None)):
        if begin < end:
            batch.report(begin, end, base_offset if error is None else -1, -1, error)
            base_offset += end - begin if error is None else 0


def test_copies_in_several_batches_are_confirmed_when_all_batches_are(bench: Bench) -> None:
    batches = open_batches(bench, 3)
    records = SentRecords(skip_failed=False, tell_confirmed=False)
    add(records, copied(bench, list(range(30)), keep=False))
    assert all(batch.count for batch in batches)
    for number, batch in enumerate(batches):
        assert records.pop_done() == ([], [])
        assert records.positions() == {}
        done(bench, batch, 100 * number)
    assert records.pop_done() == ([], [])
    assert records.positions() == {SOURCE: 30}


def test_the_offset_of_a_failed_copy_is_that_of_its_message(bench: Bench) -> None:
    batches = open_batches(bench, 3)
    records = SentRecords(skip_failed=True, tell_confirmed=False)
    copies = copied(bench, list(range(30)), keep=False)
    add(records, copies)
    for number, batch in enumerate(batches):
        done(bench, batch, 0, slice(2, 3) if number == 1 else slice(1, 2))
    places = {number: [at for at, each in enumerate(copies.targets) if each == number] for number in range(3)}
    expected = sorted([places[0][1], places[1][2], places[2][1]])
    _, failed = records.pop_done()
    assert failed == [FailedRecords(SOURCE, offset, 1, TOO_LARGE) for offset in expected]
    assert records.positions() == {SOURCE: 30}


def test_the_position_stays_before_copies_that_have_failed(bench: Bench) -> None:
    (batch,) = open_batches(bench, 1)
    records = SentRecords(skip_failed=False, tell_confirmed=True)
    add(records, consecutive(bench, 0, 4))
    done(bench, batch, 7)
    second = bench.appender.begin_batch("clicks", 0, 0.0)
    assert second is not None
    add(records, consecutive(bench, 4, 10))
    done(bench, second, 11, slice(3, 5))
    confirmed, failed = records.pop_done()
    assert failed == [FailedRecords(SOURCE, 7, 2, TOO_LARGE)]
    assert [tuple(each)[1::2] for each in confirmed] == [(0, 7), (4, 11), (9, 14)]
    assert [each.record_count for each in confirmed] == [4, 3, 1]
    assert records.positions() == {SOURCE: 7}
    assert records.pop_done() == ([], [])  # each failure is told once
    assert records.unfinished() == {SOURCE}
    records.begin([SOURCE])
    assert records.unfinished() == set()


def test_confirmed_records_have_no_gaps_in_their_source_offsets(bench: Bench) -> None:
    (batch,) = open_batches(bench, 1)
    records = SentRecords(skip_failed=False, tell_confirmed=True)
    add(records, copied(bench, [3, 4, 7, 8, 9, 20], keep=True))
    done(bench, batch, 100)
    expected = [(3, 100, 2), (7, 102, 3), (20, 105, 1)]
    assert records.pop_done() == (
        [ConfirmedRecords(SOURCE, offset, SOURCE, target, count) for offset, target, count in expected],
        [],
    )
    assert records.positions() == {SOURCE: 21}


def test_records_that_follow_each_other_take_the_memory_of_one(bench: Bench) -> None:
    (batch,) = open_batches(bench, 1)
    records = SentRecords(skip_failed=False, tell_confirmed=True)
    add(records, consecutive(bench, 5, 8))
    add(records, consecutive(bench, 8, 20))
    delivery = bench.appender.send("clicks", b"v", None, 0)
    records.add([(SOURCE, 20, 21, delivery)])
    add(records, consecutive(bench, 30, 32))
    assert len(records._runs[SOURCE]) == 2
    done(bench, batch, 0)
    confirmed, _ = records.pop_done()
    assert [tuple(each)[1::2] for each in confirmed] == [(5, 0), (30, 16)]
    assert records.positions() == {SOURCE: 32}


def test_the_offsets_of_acks_0_are_not_known(bench: Bench) -> None:
    (batch,) = open_batches(bench, 1)
    records = SentRecords(skip_failed=False, tell_confirmed=True)
    add(records, copied(bench, [3, 5], keep=True))
    bench.appender.seal_batch(batch)
    batch.report(0, 2, -1, -1, None)
    confirmed, _ = records.pop_done()
    assert [each.target_offset for each in confirmed] == [-1, -1]


def test_lost_partitions_are_forgotten(bench: Bench) -> None:
    (batch,) = open_batches(bench, 1)
    records = SentRecords(skip_failed=False, tell_confirmed=True)
    add(records, consecutive(bench, 0, 4))
    records.begin([SOURCE])
    done(bench, batch, 0)
    assert records.pop_done() == ([], [])
    assert records.positions() == {}


def test_an_offset_without_a_record_moves_the_position_in_its_turn(bench: Bench) -> None:
    (batch,) = open_batches(bench, 1)
    records = SentRecords(skip_failed=False, tell_confirmed=True)
    records.add([(SOURCE, 0, 1, None)])
    add(records, consecutive(bench, 1, 3))
    records.add([(SOURCE, 3, 4, None)])
    records.pop_done()
    assert records.positions() == {SOURCE: 1}
    records.committed({SOURCE: 1})
    assert records.positions() == {}
    done(bench, batch, 0)
    records.pop_done()
    assert records.positions() == {SOURCE: 4}
    assert records.positions([TopicPartition("clicks", 1)]) == {}
