import pytest

from pyklient.consumer.fetch.fetch_budget import ExpectedResponse, FetchBudget, ResponseMemory
from pyklient.consumer.fetch.fetch_position import Cursor, FetchedBatches
from tests.consumer.stream.bench import Bench

MIB = 1024 * 1024


def room(total: int, *waiting: int) -> tuple[FetchBudget, list[Cursor]]:
    """Return a budget of *total* bytes, and cursors with the given numbers of waiting bytes."""
    made = FetchBudget(total)
    cursors = [Bench().cursors[0] for _ in waiting]
    for cursor, size in zip(cursors, waiting, strict=True):
        cursor.fetched = size
    made.cursors = cursors
    made.count_all()
    made.responses = [ExpectedResponse()]
    return made, cursors


def test_a_partition_where_nothing_waits_is_always_fetched() -> None:
    made, (slow, fast) = room(8 * MIB, 8 * MIB, 0)
    assert made.allow([slow, fast], MIB, 0) == {fast: MIB}


def test_a_partition_takes_no_more_of_the_common_half_than_it_leaves() -> None:
    made, (busy, _) = room(8 * MIB, 3 * MIB, 0)
    assert made.allow([busy], 4 * MIB, 0) == {busy: 2 * MIB}, "it holds one of four, three are left"
    busy.fetched = 4 * MIB
    assert made.allow([busy], 4 * MIB, 0) == {}, "it holds two, two are left"


def test_a_slow_reader_cannot_use_up_the_others_shares() -> None:
    made, cursors = room(8 * MIB, 6 * MIB, MIB)
    assert cursors[0] not in made.allow(cursors, MIB, 0)
    assert made.allow(cursors, MIB, 0) == {cursors[1]: MIB}


def test_readers_that_stand_still_leave_room_for_those_that_read() -> None:
    """The extreme case of the rule: half of a hundred partitions are never read."""
    made, cursors = room(64 * MIB, *[0] * 100)
    stalled, read = cursors[:50], cursors[50:]
    for _ in range(1000):
        allowed = made.allow(cursors, 4 * MIB, 0)
        left = made.response_limit(ExpectedResponse(), allowed, 50 * MIB)
        for cursor, limit in allowed.items():
            cursor.fetched += min(limit, left)
            made.note_fetched(cursor)
            left -= min(limit, left)
        for cursor in read:
            cursor.taken = cursor.fetched
    assert sum(cursor.waiting_bytes for cursor in stalled) < 64 * MIB
    own = 64 * MIB // 2 // 100
    assert all(made.allow(read, 4 * MIB, 0)[cursor] >= own for cursor in read)
    assert made.response_limit(ExpectedResponse(), read, 50 * MIB) >= 50 * own


def test_a_reader_is_fetched_for_as_far_ahead_as_it_gets_in_a_second() -> None:
    made, (cursor, _) = room(64 * MIB, 0, 0)
    cursor.fetched = 10 * MIB
    made.note_fetched(cursor)
    assert cursor in made.allow([cursor], MIB, 0.0), "nobody knows yet how fast it reads"
    cursor.taken = 5 * MIB
    assert cursor not in made.allow([cursor], MIB, 1.0), "five MiB a second, five are waiting"
    cursor.taken = 6 * MIB
    assert cursor in made.allow([cursor], MIB, 1.5), "and now four"
    assert made.allow([cursor], MIB, 2.5) == {}, "less than one in a second: two fetches are enough"
    cursor.taken = 9 * MIB
    assert made.allow([cursor], MIB, 2.5) == {cursor: MIB}


def test_old_brokers_are_never_asked_for_less_than_a_message_may_need() -> None:
    made, (cursor, other) = room(8 * MIB, 3 * MIB, 0)
    assert made.allow([cursor, other], 3 * MIB, 0) == {cursor: 2 * MIB, other: 3 * MIB}
    assert made.allow([cursor, other], 3 * MIB, 0, least=3 * MIB) == {other: 3 * MIB}
    made, cursors = room(MIB, *[0] * 4)
    assert made.allow(cursors, MIB, 0, least=MIB) == dict.fromkeys(cursors, MIB)


def test_a_response_leaves_room_for_what_the_other_fetchers_have_asked_for() -> None:
    made, (cursor, _) = room(16 * MIB, MIB, 5 * MIB)
    mine, other = ExpectedResponse(), ExpectedResponse(4 * MIB)
    made.responses = [mine, other]
    assert made.response_limit(mine, [cursor], 50 * MIB) == 3 * MIB, "half of the 6 MiB that are left"
    assert made.response_limit(mine, [cursor], MIB) == MIB
    other.size = 100 * MIB
    assert made.response_limit(mine, [cursor], 50 * MIB) == 3 * MIB, "what is left of the cursor's own 4 MiB"
    cursor.fetched = 4 * MIB
    assert made.response_limit(mine, [cursor], 50 * MIB) == 64 * 1024, "something must always be fetched"


def test_a_response_is_a_fourth_of_the_budget_at_most() -> None:
    made, cursors = room(16 * MIB, 0, 0)
    assert made.response_limit(ExpectedResponse(), cursors, 50 * MIB) == 4 * MIB


def cut(frame: bytes, count: int) -> list[FetchedBatches]:
    cursor = Bench().cursors[0]
    share = len(frame) // count
    view = memoryview(frame)
    return [FetchedBatches(cursor, view[at : at + share], 0, 1) for at in range(0, share * count, share)]


def test_a_response_that_is_read_evenly_is_never_copied() -> None:
    frames, frame = ResponseMemory(), bytes(MIB)
    parts = cut(frame, 4)
    frames.add(MIB, parts)
    for part in parts:
        frames.compact(idle_allowed=MIB)
        assert all(each.buffer.obj is frame for each in parts if each.size)
        part.buffer = memoryview(b"")
    frames.compact(idle_allowed=0)


def test_one_unread_piece_does_not_keep_a_whole_response() -> None:
    frames, frame = ResponseMemory(), bytes(range(256)) * 4096
    parts = cut(frame, 16)
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


def test_parts_of_a_partition_that_was_taken_away_do_not_keep_their_response() -> None:
    memory, bench, taken, kept = ResponseMemory(), Bench(), bytearray(MIB), bytearray(MIB)
    for cursor, frame in zip(bench.cursors, (taken, kept), strict=True):
        memory.add(MIB, [FetchedBatches(cursor, memoryview(frame), 0, 1)])
    bench.cursors[0].dropped = True
    memory.compact(idle_allowed=MIB)
    taken.clear()  # nobody has a view of it any more
    with pytest.raises(BufferError):
        kept.clear()
