"""Files with committed offsets: CSV in both of Kafka's forms, JSON, and what is wrong with a file."""

import pytest

from pyklient.cli.offset_files import csv_lines, json_rows, parse_offsets
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

_OFFSETS = {
    TopicPartition("clicks", 0): OffsetAndMetadata(17),
    TopicPartition("clicks", 1): OffsetAndMetadata(0),
}


def test_lines_are_read_as_they_are_written() -> None:
    assert csv_lines(_OFFSETS) == "clicks,0,17\nclicks,1,0\n"
    assert parse_offsets(csv_lines(_OFFSETS).encode(), "g") == _OFFSETS
    assert parse_offsets(b'\xef\xbb\xbf"clicks",0,17\r\n\r\nclicks, 1, 0', "g") == _OFFSETS
    assert parse_offsets(b"clicks,0,17\rclicks,1,0\r", "g") == _OFFSETS


def test_the_offsets_of_other_groups_are_left_out() -> None:
    assert parse_offsets(b"g,clicks,0,17\nh,clicks,0,18\ng,clicks,1,0\n", "g") == _OFFSETS
    with pytest.raises(ValueError, match="the file has no offset of group other"):
        parse_offsets(b"g,clicks,0,17\n", "other")


def test_json_keeps_the_text_that_is_stored_with_an_offset() -> None:
    offsets = {**_OFFSETS, TopicPartition("views", 0): OffsetAndMetadata(3, "checked")}
    assert json_rows(offsets)[2] == {"topic": "views", "partition": 0, "offset": 3, "metadata": "checked"}
    text = b'[{"topic":"clicks","partition":0,"offset":17},{"topic":"clicks","partition":1,"offset":0},'
    text += b'{"group":"g","topic":"views","partition":0,"offset":3,"metadata":"checked"}]'
    assert parse_offsets(text, "g") == offsets


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", "the file has no offset of group g"),
        (b"clicks,0", "line 1 is neither topic,partition,offset nor group,topic,partition,offset"),
        (b"clicks,0,17\nclicks,0,17", "line 2 has a second offset of clicks-0; remove one of the two"),
        (b"clicks,0,-1", "line 1: the offset '-1' is not a whole number of 0 or more"),
        (b"clicks,0,9223372036854775808", "line 1: the offset 9223372036854775808 is too large"),
        (b"clicks,2147483648,0", "line 1: the partition number 2147483648 is too large"),
        (b"cli cks,0,17", "line 1: .*cli cks"),
        (b"\xff,0,17", "the file is not UTF-8"),
        (b"[{", "the file is not JSON"),
        (b"[" * 100_000, "the file is not JSON"),
        (b"x" * 200_000 + b",0,17", "the file is neither CSV nor JSON: field larger than"),
        (b"[7]", "row 1 is not an object with topic, partition and offset"),
        (b'[{"topic":"t","partition":0,"offset":true}]', "row 1: the offset True is not a whole number"),
        (b'[{"topic":"t","partition":0,"offset":1.5}]', "row 1: the offset 1.5 is not a whole number"),
        (b'[{"topic":7,"partition":0,"offset":1}]', "row 1: the topic 7 is not text"),
        (b'[{"topic":"t","partition":0,"offset":1,"metadata":7}]', "row 1: the metadata 7 is not text"),
        (b'[{"topic":"t","partition":0,"offset":1,"lag":7}]', "row 1 has the unknown field 'lag'"),
    ],
)
def test_a_wrong_file_is_an_error_that_names_the_place(content: bytes, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        parse_offsets(content, "g")
