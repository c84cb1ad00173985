"""Missing offsets of a range are reported and left out, without Spark or a broker."""

import pytest

from pyklient import TopicPartition
from pyklient.spark.source.data_loss import RecreatedTopics, available
from pyklient.spark.source.offset_ranges import LogEnds, OffsetRange

CLICKS, VIEWS = TopicPartition("clicks", 0), TopicPartition("views", 3)


def test_what_is_there_is_read_as_it_was_wanted() -> None:
    for wanted in (OffsetRange(CLICKS, 3, 9), OffsetRange(CLICKS, 9, 9), OffsetRange(CLICKS, 7, 4)):
        assert available(wanted, LogEnds(3, 9)) == (wanted, None)


@pytest.mark.parametrize(
    ("wanted", "kept", "problem"),
    [
        (
            (0, 8),
            (5, 8),
            "offsets 0 to 5 of clicks-0 were deleted before they were read; the partition now",
        ),
        (
            (0, 3),
            (3, 3),
            "offsets 0 to 3 of clicks-0 were deleted before they were read",
        ),
        (
            (4, 8),
            (5, 8),
            "offsets 4 to 5 of clicks-0 were deleted before they were read",
        ),
        ((6, 12), (6, 9), "clicks-0 was to be read up to offset 12, but it ends at 9"),
        (
            (40, 7),
            (5, 7),
            "clicks-0 was read up to offset 40, but it ends at 9: the topic was deleted and created again",
        ),
        ((40, 50), (50, 50), "clicks-0 was read up to offset 40, but it ends at 9"),
    ],
)
def test_what_is_gone_is_left_out_and_said(
    wanted: tuple[int, int], kept: tuple[int, int], problem: str
) -> None:
    found, said = available(OffsetRange(CLICKS, *wanted), LogEnds(5, 9))
    assert found == OffsetRange(CLICKS, *kept)
    assert said is not None
    assert problem in said


def test_offsets_of_a_topic_that_got_another_id_are_stale() -> None:
    topics = RecreatedTopics()
    topics.note({"clicks": b"one", "views": b"a"}, {CLICKS: 5, VIEWS: 5})
    assert not topics.is_stale(CLICKS, 5)
    topics.note({"clicks": b"two", "views": b"a"}, {CLICKS: 7, VIEWS: 7})
    assert topics.is_stale(CLICKS, 7)
    assert not topics.is_stale(CLICKS, 2), "an offset of the new topic"
    assert not topics.is_stale(VIEWS, 7)
