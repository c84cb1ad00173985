"""The order of one partition's records, without a broker: what is ready, what goes again, what is stamped."""

import threading

import pytest

from pyklient.errors import KafkaError
from pyklient.model import TopicPartition
from pyklient.producer.idempotence import UNSTAMPED, Sequences, Stamp
from pyklient.producer.lane import Lane
from pyklient.producer.ledger import Ledger
from pyklient.producer.parcel import Parcel, seal
from pyklient.producer.verdict import Verdict, is_certainly_not_stored, judge
from pyklient.protocol.records import Compression
from pyklient.protocol.records.kernel import Appender, Batch, Delivery

FAILURE = KafkaError("failed")
NEVER = float("inf")


class Road:
    """A lane with linger 1 s and patience 10 s, and batches to put on it."""

    def __init__(self, *, idempotent: bool = True) -> None:
        self.ledger = Ledger(threading.Lock(), lambda: False)
        self.appender = Appender(
            self._decline, self.ledger, lambda: 0, plain=True, batch_size=10_000, limit=1 << 30
        )
        self.appender.know("clicks", 1)
        sequences = Sequences() if idempotent else None
        if sequences is not None:
            sequences.adopt(7, 0)
        self.lane = Lane(TopicPartition("clicks", 0), sequences, linger=1.0, patience=10.0, seal=self._seal)

    def batch(self, created: float = 0.0, records: int = 2) -> Batch:
        """A batch that is full, in the lane."""
        batch = self.appender.open("clicks", 0, created)
        assert batch is not None
        for _ in range(records):
            self.appender.send("clicks", b"x")
        self.appender.take(batch)
        self.lane.add(batch)
        return batch

    def take(self) -> Parcel:
        """The next parcel, which must be ready."""
        assert self.lane.ready(0.5)
        parcel = self.lane.take()
        assert parcel is not None
        return parcel

    def known(self) -> None:
        """Have a first parcel stored, so that several may be on the wire."""
        self.batch()
        self.lane.stored(self.take())

    def _seal(self, batch: Batch) -> Parcel:
        self.appender.take(batch)
        return seal(batch, Compression.NONE)

    def _decline(self, *arguments: object) -> Delivery:
        raise AssertionError(f"declined: {arguments}")


def test_a_batch_is_ready_when_it_is_full_or_has_lingered() -> None:
    road = Road()
    batch = road.appender.open("clicks", 0, 5.0)
    assert batch is not None
    road.appender.send("clicks", b"x")
    road.lane.add(batch)
    assert not road.lane.ready(5.9)
    assert road.lane.next_look(5.0) == 6.0
    assert road.lane.ready(6.0)
    assert road.lane.next_look(6.0) == 15.0
    road.appender.take(batch)
    assert road.lane.ready(5.0)
    assert not road.lane.idle


def test_an_empty_batch_is_no_parcel() -> None:
    road = Road()
    road.batch(records=0)
    assert road.lane.take() is None
    assert road.lane.idle


def test_the_first_parcel_of_a_sequence_goes_alone_and_then_five_are_on_the_wire() -> None:
    road = Road()
    for _ in range(8):
        road.batch()
    first = road.take()
    assert not road.lane.ready(0.5)
    road.lane.stored(first)
    stamps = [road.take().stamp for _ in range(5)]
    assert stamps == [Stamp(7, 0, sequence) for sequence in (2, 4, 6, 8, 10)]
    assert not road.lane.ready(0.5)


def test_without_stamps_nothing_limits_what_is_on_the_wire() -> None:
    road = Road(idempotent=False)
    for _ in range(8):
        road.batch()
    assert {road.take().stamp for _ in range(8)} == {UNSTAMPED}


def test_after_a_failure_the_oldest_goes_again_alone_and_new_ones_wait() -> None:
    road = Road()
    road.known()
    for _ in range(4):
        road.batch()
    a, b, c = road.take(), road.take(), road.take()
    road.lane.failed(a, FAILURE, in_doubt=True, rest_until=0.4)
    assert not road.lane.ready(0.5), "others are still on the wire"
    road.lane.failed(c, FAILURE, in_doubt=False, rest_until=0.2)
    road.lane.failed(b, FAILURE, in_doubt=False, rest_until=0.3)
    assert not road.lane.ready(0.35), "the rest is not over"
    assert road.lane.next_look(0.35) == 0.4
    for parcel in (a, b, c):
        stamp = parcel.stamp
        assert road.take() is parcel
        assert parcel.stamp == stamp
        assert road.lane.ready(0.5) == (parcel is c), "new ones may follow the last of them"
        road.lane.stored(parcel)
    assert road.take() not in (a, b, c)


def test_behind_a_parcel_that_is_certainly_lost_a_new_epoch_begins() -> None:
    road = Road()
    road.known()
    for _ in range(3):
        road.batch()
    a, b = road.take(), road.take()
    road.lane.lost(a)
    assert not road.lane.ready(0.5), "the answer to b is still due"
    road.lane.out_of_sequence(b, FAILURE, rest_until=0.0)
    assert road.take() is b
    assert b.stamp == Stamp(7, 1, 0)
    road.lane.stored(b)
    assert road.take().stamp == Stamp(7, 1, 2)


def test_behind_a_parcel_in_doubt_stamps_stay_until_the_doubt_is_over() -> None:
    road = Road()
    road.known()
    for _ in range(4):
        road.batch()
    a, b, c = road.take(), road.take(), road.take()
    for parcel in (a, b, c):
        road.lane.failed(parcel, FAILURE, in_doubt=True, rest_until=0.0)
    road.lane.lost(road.take())
    assert road.take() is b
    assert b.stamp == Stamp(7, 0, 4)
    road.lane.stored(b)  # so a was stored too
    assert road.take().stamp == Stamp(7, 0, 6)
    road.lane.stored(c)
    assert road.take().stamp == Stamp(7, 0, 8)


def test_a_doubt_that_comes_true_begins_a_new_epoch() -> None:
    road = Road()
    road.known()
    for _ in range(3):
        road.batch()
    a, b = road.take(), road.take()
    for parcel in (a, b):
        road.lane.failed(parcel, FAILURE, in_doubt=True, rest_until=0.0)
    road.lane.lost(road.take())
    road.lane.out_of_sequence(road.take(), FAILURE, rest_until=0.0)
    assert road.take() is b
    assert b.stamp == Stamp(7, 1, 0)


def test_a_doubt_that_nothing_can_dispel_begins_a_new_epoch() -> None:
    road = Road()
    road.known()
    road.batch()
    a = road.take()
    road.batch()
    road.lane.failed(a, FAILURE, in_doubt=True, rest_until=0.0)
    road.lane.lost(road.take())
    assert road.take().stamp == Stamp(7, 1, 0)


def test_out_of_sequence_behind_one_that_goes_again_is_no_gap() -> None:
    road = Road()
    road.known()
    for _ in range(2):
        road.batch()
    a, b = road.take(), road.take()
    road.lane.failed(a, FAILURE, in_doubt=False, rest_until=0.0)
    road.lane.out_of_sequence(b, FAILURE, rest_until=0.0)
    assert [road.take().stamp] == [Stamp(7, 0, 2)]
    road.lane.stored(a)
    assert road.take().stamp == Stamp(7, 0, 4)


def test_halves_go_in_its_place_with_the_sequence_running_through() -> None:
    road = Road()
    road.known()
    road.batch(records=5)
    road.batch()
    whole, after = road.take(), road.take()
    road.lane.split(whole)
    road.lane.out_of_sequence(after, FAILURE, rest_until=0.0)
    parts = []
    for _ in range(3):
        parcel = road.take()
        parts.append((parcel.first, parcel.count, parcel.stamp))
        road.lane.stored(parcel)
    assert parts == [(0, 2, Stamp(7, 0, 2)), (2, 3, Stamp(7, 0, 4)), (0, 2, Stamp(7, 0, 7))]


def test_what_is_too_old_leaves_the_lane_and_what_is_on_the_wire_stays_in_it() -> None:
    road = Road()
    road.known()
    for created in (1.0, 2.0, 3.0, 9.0):
        road.batch(created=created)
    again, flying = road.take(), road.take()
    road.lane.failed(again, FAILURE, in_doubt=False, rest_until=0.0)
    assert road.lane.next_look(4.0) == 11.0
    assert road.lane.expire(10.9) == ([], [])
    parcels, batches = road.lane.expire(13.0)
    assert parcels == [again, flying]
    assert [batch.created for batch in batches] == [3.0]
    assert flying.expired
    assert road.lane.expire(13.0) == ([], [])
    road.lane.stored(flying)
    assert not road.lane.idle


def test_everything_can_be_taken_out() -> None:
    road = Road()
    road.known()
    for _ in range(3):
        road.batch()
    parcel = road.take()
    parcels, batches = road.lane.expire(NEVER)
    assert parcels == [parcel]
    assert len(batches) == 2


def test_stamps_can_be_given_up() -> None:
    road = Road()
    road.known()
    for _ in range(2):
        road.batch()
    a, b = road.take(), road.take()
    road.lane.without_stamps()
    road.lane.failed(a, FAILURE, in_doubt=False, rest_until=0.0)
    road.lane.failed(b, FAILURE, in_doubt=False, rest_until=0.0)
    assert road.take().stamp == UNSTAMPED
    road.lane.lost(a)
    assert road.take().stamp == UNSTAMPED


def test_sequences_wrap_around_and_epochs_run_out() -> None:
    sequences = Sequences()
    sequences.adopt(7, 0x7FFE)
    assert sequences.stamp(0x7FFFFFFF) == Stamp(7, 0x7FFE, 0)
    assert sequences.stamp(3) == Stamp(7, 0x7FFE, 0x7FFFFFFF)
    assert sequences.stamp(1) == Stamp(7, 0x7FFE, 2)
    sequences.restart()
    assert sequences.stamp(1) == Stamp(7, 0x7FFF, 0)
    sequences.restart()
    assert (sequences.producer_id, sequences.used_up) == (-1, 7)


@pytest.mark.parametrize(
    ("code", "idempotent", "verdict"),
    [
        (0, True, Verdict.STORED),
        (46, True, Verdict.STORED),
        (10, False, Verdict.TOO_LARGE),
        (18, True, Verdict.TOO_LARGE),
        (45, True, Verdict.OUT_OF_SEQUENCE),
        (45, False, Verdict.REFUSED),
        (47, True, Verdict.OUT_OF_SEQUENCE),
        (59, True, Verdict.OUT_OF_SEQUENCE),
        (43, True, Verdict.NO_PRODUCER_IDS),
        (43, False, Verdict.REFUSED),
        (6, True, Verdict.AGAIN),
        (19, False, Verdict.AGAIN),
        (29, True, Verdict.REFUSED),
        (12345, True, Verdict.REFUSED),
    ],
)
def test_each_code_has_its_verdict(code: int, idempotent: bool, verdict: Verdict) -> None:
    assert judge(code, idempotent=idempotent) is verdict


def test_a_leader_that_steps_down_leaves_its_records_in_doubt() -> None:
    assert not is_certainly_not_stored(6)
    assert not is_certainly_not_stored(7)
    assert not is_certainly_not_stored(20)
    assert is_certainly_not_stored(19)
    assert is_certainly_not_stored(45)
