from dataclasses import dataclass

from pyklient.consumer.claim import Claim, Piece
from pyklient.consumer.room import Frames, Room
from tests.consumer.pieces import Bench

MIB = 1024 * 1024


@dataclass(eq=False)
class Asking:
    in_flight: int = 0


def room(total: int, *waiting: int) -> tuple[Room, list[Claim]]:
    """A budget of *total*, and claims for which so many bytes wait."""
    made = Room(total)
    claims = [Bench().claims[0] for _ in waiting]
    for claim, size in zip(claims, waiting, strict=True):
        claim.fetched = size
    made.claims = claims
    made.fetchers = [Asking()]
    return made, claims


def test_a_partition_where_nothing_waits_is_always_fetched() -> None:
    made, (slow, fast) = room(8 * MIB, 8 * MIB, 0)
    assert made.allow([slow, fast], MIB, 0) == {fast: MIB}


def test_a_partition_takes_no_more_of_the_common_half_than_it_leaves() -> None:
    made, (busy, _) = room(8 * MIB, 3 * MIB, 0)
    assert made.allow([busy], 4 * MIB, 0) == {busy: 2 * MIB}, "it holds one of four, three are left"
    busy.fetched = 4 * MIB
    assert made.allow([busy], 4 * MIB, 0) == {}, "it holds two, two are left"


def test_a_slow_reader_cannot_use_up_the_others_shares() -> None:
    made, claims = room(8 * MIB, 6 * MIB, MIB)
    assert claims[0] not in made.allow(claims, MIB, 0)
    assert made.allow(claims, MIB, 0) == {claims[1]: MIB}


def test_readers_that_stand_still_leave_room_for_those_that_read() -> None:
    """The rule, applied to its end: half of a hundred partitions are never read."""
    made, claims = room(64 * MIB, *[0] * 100)
    stalled, read = claims[:50], claims[50:]
    for _ in range(1000):
        allowed = made.allow(claims, 4 * MIB, 0)
        left = made.response_limit(Asking(), allowed, 50 * MIB)
        for claim, limit in allowed.items():
            claim.fetched += min(limit, left)
            left -= min(limit, left)
        for claim in read:
            claim.taken = claim.fetched
    assert sum(claim.waiting_bytes for claim in stalled) < 64 * MIB
    own = 64 * MIB // 2 // 100
    assert all(made.allow(read, 4 * MIB, 0)[claim] >= own for claim in read)
    assert made.response_limit(Asking(), read, 50 * MIB) >= 50 * own


def test_a_reader_is_fetched_for_as_far_ahead_as_it_gets_in_a_second() -> None:
    made, (claim, _) = room(64 * MIB, 0, 0)
    claim.fetched = 10 * MIB
    assert claim in made.allow([claim], MIB, 0.0), "nobody knows yet how fast it reads"
    claim.taken = 5 * MIB
    assert claim not in made.allow([claim], MIB, 1.0), "five MiB a second, five are waiting"
    claim.taken = 6 * MIB
    assert claim in made.allow([claim], MIB, 1.5), "and now four"
    assert made.allow([claim], MIB, 2.5) == {}, "less than one in a second: two fetches are enough"
    claim.taken = 9 * MIB
    assert made.allow([claim], MIB, 2.5) == {claim: MIB}


def test_old_brokers_are_never_asked_for_less_than_a_message_may_need() -> None:
    made, (claim, other) = room(8 * MIB, 3 * MIB, 0)
    assert made.allow([claim, other], 3 * MIB, 0) == {claim: 2 * MIB, other: 3 * MIB}
    assert made.allow([claim, other], 3 * MIB, 0, least=3 * MIB) == {other: 3 * MIB}
    made, claims = room(MIB, *[0] * 4)
    assert made.allow(claims, MIB, 0, least=MIB) == dict.fromkeys(claims, MIB)


def test_a_response_leaves_room_for_what_the_other_fetchers_have_asked_for() -> None:
    made, (claim, _) = room(16 * MIB, MIB, 5 * MIB)
    mine, other = Asking(), Asking(in_flight=4 * MIB)
    made.fetchers = [mine, other]
    assert made.response_limit(mine, [claim], 50 * MIB) == 3 * MIB, "half of the 6 MiB that are left"
    assert made.response_limit(mine, [claim], MIB) == MIB
    other.in_flight = 100 * MIB
    assert made.response_limit(mine, [claim], 50 * MIB) == 3 * MIB, "what is left of the claim's own 4 MiB"
    claim.fetched = 4 * MIB
    assert made.response_limit(mine, [claim], 50 * MIB) == 64 * 1024, "something must always be fetched"


def test_a_response_is_a_fourth_of_the_budget_at_most() -> None:
    made, claims = room(16 * MIB, 0, 0)
    assert made.response_limit(Asking(), claims, 50 * MIB) == 4 * MIB


def pieces(frame: bytes, count: int) -> list[Piece]:
    claim = Bench().claims[0]
    share = len(frame) // count
    view = memoryview(frame)
    return [Piece(claim, view[at : at + share], 0, 1) for at in range(0, share * count, share)]


def test_a_response_that_is_read_evenly_is_never_copied() -> None:
    frames, frame = Frames(), bytes(MIB)
    parts = pieces(frame, 4)
    frames.add(MIB, parts)
    for part in parts:
        frames.compact(idle_allowed=MIB)
        assert all(each.buffer.obj is frame for each in parts if each.size)
        part.buffer = memoryview(b"")
    frames.compact(idle_allowed=0)


def test_one_unread_piece_does_not_keep_a_whole_response() -> None:
    frames, frame = Frames(), bytes(range(256)) * 4096
    parts = pieces(frame, 16)
    left = parts[3]
    expected = bytes(left.buffer)
    left.at = 5
    frames.add(MIB, list(parts))
    for part in parts:
        if part is not left:
            part.buffer = memoryview(b"")
    frames.compact(idle_allowed=MIB)
    assert left.buffer.obj is frame, "there is no need yet"
    frames.compact(idle_allowed=MIB // 2)
    assert left.buffer.obj is not frame
    assert (bytes(left.buffer), left.at) == (expected, 5)
