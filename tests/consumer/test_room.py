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
    assert made.allow([slow, fast], MIB) == {fast: MIB}


def test_half_of_the_budget_goes_to_whoever_can_use_it() -> None:
    made, (busy, _) = room(8 * MIB, 5 * MIB, 0)
    assert made.allow([busy], 4 * MIB) == {busy: MIB}, "2 MiB of its own and 4 of the common half"


def test_a_slow_reader_cannot_use_up_the_others_shares() -> None:
    made, claims = room(8 * MIB, 6 * MIB, MIB)
    assert claims[0] not in made.allow(claims, MIB)
    assert made.allow(claims, MIB) == {claims[1]: MIB}


def test_a_response_leaves_room_for_what_the_other_fetchers_have_asked_for() -> None:
    made, _ = room(8 * MIB, MIB)
    mine, other = Asking(), Asking(in_flight=3 * MIB)
    made.fetchers = [mine, other]
    assert made.response_limit(mine, 50 * MIB) == 2 * MIB, "half of the 4 MiB that are left"
    assert made.response_limit(mine, MIB) == MIB
    other.in_flight = 100 * MIB
    assert made.response_limit(mine, 50 * MIB) == 64 * 1024, "something must always be fetched"


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
