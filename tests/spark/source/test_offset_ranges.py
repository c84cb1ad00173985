"""What each task reads, without Spark or a broker."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyklient import TopicPartition
from pyklient.spark.source.offset_ranges import LogEnds, OffsetRange, share_out, split, within

CLICKS, VIEWS = TopicPartition("clicks", 0), TopicPartition("views", 3)
RANGES = st.lists(
    st.builds(
        lambda number, start, size: OffsetRange(TopicPartition("clicks", number), start, start + size),
        st.integers(0, 9),
        st.integers(0, 2**62),
        st.integers(0, 1000) | st.integers(0, 2**40),
    ),
    max_size=8,
    unique_by=lambda each: each.partition,
)


def test_each_partition_is_one_task_and_an_empty_one_is_none() -> None:
    assert split([OffsetRange(CLICKS, 5, 9), OffsetRange(VIEWS, 7, 7)]) == [OffsetRange(CLICKS, 5, 9)]


def test_the_largest_ranges_are_cut_evenly() -> None:
    assert split([OffsetRange(CLICKS, 0, 90), OffsetRange(VIEWS, 100, 110)], at_least=4) == [
        OffsetRange(CLICKS, 0, 30),
        OffsetRange(CLICKS, 30, 60),
        OffsetRange(CLICKS, 60, 90),
        OffsetRange(VIEWS, 100, 110),
    ]


def test_no_task_reads_more_than_it_may() -> None:
    assert split([OffsetRange(CLICKS, 0, 10)], most=4) == [
        OffsetRange(CLICKS, 0, 3),
        OffsetRange(CLICKS, 3, 6),
        OffsetRange(CLICKS, 6, 10),
    ]


@given(RANGES, st.none() | st.integers(1, 40), st.none() | st.integers(2**36, 2**41))
def test_pieces_cover_their_ranges_once_and_in_order(
    ranges: list[OffsetRange], at_least: int | None, most: int | None
) -> None:
    pieces = split(ranges, at_least=at_least, most=most)
    for each in ranges:
        edges = [(piece.start, piece.end) for piece in pieces if piece.partition == each.partition]
        assert [start for start, _ in edges] == [each.start, *(end for _, end in edges)][: len(edges)]
        assert not edges if each.size == 0 else edges[-1][1] == each.end
        sizes = [end - start for start, end in edges]
        assert not sizes or max(sizes) - min(sizes) <= 1
    assert len(pieces) >= min(at_least or 0, sum(each.size for each in ranges))
    assert most is None or all(piece.size <= most for piece in pieces)
    assert all(piece.size > 0 for piece in pieces)


def test_what_is_there_is_read_as_it_was_wanted() -> None:
    for wanted in (OffsetRange(CLICKS, 3, 9), OffsetRange(CLICKS, 9, 9), OffsetRange(CLICKS, 7, 4)):
        assert within(wanted, LogEnds(3, 9)) == (wanted, None)


@pytest.mark.parametrize(
    ("wanted", "kept", "problem"),
    [
        ((0, 8), (5, 8), "offsets 0 to 5 of clicks-0 are gone before they were read; it begins at 5"),
        ((0, 3), (3, 3), "offsets 0 to 3 of clicks-0 are gone before they were read; it begins at 5"),
        ((4, 8), (5, 8), "offsets 4 to 5 of clicks-0 are gone before they were read; it begins at 5"),
        ((6, 12), (6, 9), "clicks-0 is to be read up to offset 12 and ends at 9"),
        (
            (40, 7),
            (5, 7),
            "clicks-0 was read up to offset 40 and ends at 9: it was deleted and created again",
        ),
        ((40, 50), (50, 50), "clicks-0 was read up to offset 40 and ends at 9"),
    ],
)
def test_what_is_gone_is_left_out_and_said(
    wanted: tuple[int, int], kept: tuple[int, int], problem: str
) -> None:
    found, said = within(OffsetRange(CLICKS, *wanted), LogEnds(5, 9))
    assert found == OffsetRange(CLICKS, *kept)
    assert said is not None
    assert problem in said


def test_a_micro_batch_is_shared_out_by_what_waits() -> None:
    start, latest = {CLICKS: 10, VIEWS: 0}, {CLICKS: 110, VIEWS: 300}
    assert share_out(40, start, latest) == {CLICKS: 20, VIEWS: 30}
    assert share_out(1000, start, latest) == latest


def test_a_small_partition_moves_beside_a_large_one() -> None:
    start, latest = {CLICKS: 0, VIEWS: 5}, {CLICKS: 1_000_000, VIEWS: 6}
    assert share_out(100, start, latest) == {CLICKS: 99, VIEWS: 6}


def test_a_partition_with_nothing_new_stays_where_it_is() -> None:
    assert share_out(5, {CLICKS: 0, VIEWS: 9}, {CLICKS: 50, VIEWS: 9}) == {CLICKS: 5, VIEWS: 9}
