"""The offsets that each task reads, without Spark or a broker."""

from hypothesis import given
from hypothesis import strategies as st

from pyklient import TopicPartition
from pyklient.spark.source.offset_ranges import OffsetRange, limit_ends, split_ranges

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
    assert split_ranges([OffsetRange(CLICKS, 5, 9), OffsetRange(VIEWS, 7, 7)]) == [OffsetRange(CLICKS, 5, 9)]


def test_the_largest_ranges_are_cut_evenly() -> None:
    assert split_ranges([OffsetRange(CLICKS, 0, 90), OffsetRange(VIEWS, 100, 110)], min_count=4) == [
        OffsetRange(CLICKS, 0, 30),
        OffsetRange(CLICKS, 30, 60),
        OffsetRange(CLICKS, 60, 90),
        OffsetRange(VIEWS, 100, 110),
    ]


def test_no_task_reads_more_than_it_may() -> None:
    assert split_ranges([OffsetRange(CLICKS, 0, 10)], max_size=4) == [
        OffsetRange(CLICKS, 0, 3),
        OffsetRange(CLICKS, 3, 6),
        OffsetRange(CLICKS, 6, 10),
    ]


@given(RANGES, st.none() | st.integers(1, 40), st.none() | st.integers(2**36, 2**41))
def test_pieces_cover_their_ranges_once_and_in_order(
    ranges: list[OffsetRange], min_count: int | None, max_size: int | None
) -> None:
    pieces = split_ranges(ranges, min_count=min_count, max_size=max_size)
    for each in ranges:
        edges = [(piece.start, piece.end) for piece in pieces if piece.partition == each.partition]
        assert [start for start, _ in edges] == [each.start, *(end for _, end in edges)][: len(edges)]
        assert not edges if each.size == 0 else edges[-1][1] == each.end
        sizes = [end - start for start, end in edges]
        assert not sizes or max(sizes) - min(sizes) <= 1
    assert len(pieces) >= min(min_count or 0, sum(each.size for each in ranges))
    assert max_size is None or all(piece.size <= max_size for piece in pieces)
    assert all(piece.size > 0 for piece in pieces)


def test_a_limit_is_divided_by_what_each_partition_has_to_read() -> None:
    start, latest = {CLICKS: 10, VIEWS: 0}, {CLICKS: 110, VIEWS: 300}
    assert limit_ends(40, start, latest) == {CLICKS: 20, VIEWS: 30}
    assert limit_ends(1000, start, latest) == latest


def test_a_small_partition_moves_beside_a_large_one() -> None:
    start, latest = {CLICKS: 0, VIEWS: 5}, {CLICKS: 1_000_000, VIEWS: 6}
    assert limit_ends(100, start, latest) == {CLICKS: 99, VIEWS: 6}


def test_a_partition_with_nothing_new_stays_where_it_is() -> None:
    assert limit_ends(5, {CLICKS: 0, VIEWS: 9}, {CLICKS: 50, VIEWS: 9}) == {CLICKS: 5, VIEWS: 9}
