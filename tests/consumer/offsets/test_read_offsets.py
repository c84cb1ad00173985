"""The offsets in ZooKeeper that count for a group, on nodes in memory."""

from typing import Any

import pytest

from pyklient.consumer.commit.offset_storages.zookeeper_offset_storage import read_offsets
from pyklient.registry.requests import Node, RegistryDialogue, Together
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

OLD, NEW, NONE = (TopicPartition("t", number) for number in range(3))
UNKNOWN = TopicPartition("u", 0)

NODES = {
    "/brokers/topics/t": Node(b"{}", created=10, written=30),
    "/consumers/g/offsets/t/0": Node(b"7", created=1, written=9),
    "/consumers/g/offsets/t/1": Node(b"8", created=1, written=11),
    "/consumers/g/offsets/u/0": Node(b"9", created=1, written=2),
}


def answered(dialogue: RegistryDialogue[Any]) -> tuple[Any, list[str]]:
    """Run *dialogue*, whose requests are sent together, on NODES. Return its result and the paths that it
    read."""
    together = next(dialogue)
    assert isinstance(together, Together)
    paths = [each.path for each in together.requests]
    with pytest.raises(StopIteration) as end:
        dialogue.send([NODES.get(path) for path in paths])
    return end.value.value, paths


def test_an_offset_from_before_the_topic_was_created_does_not_count_and_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found, _ = answered(read_offsets("g", [OLD, NEW, NONE], {}))
    assert found == {OLD: None, NEW: OffsetAndMetadata(8), NONE: None}
    assert len([each for each in caplog.messages if "the offset 7 of t-0" in each]) == 1


def test_an_offset_that_was_there_before_is_missed(caplog: pytest.LogCaptureFixture) -> None:
    answered(read_offsets("g", [NEW, NONE, UNKNOWN], {NEW: 5, NONE: 6}))
    said = "the committed offset 6 of t-2 has been deleted from ZooKeeper"
    assert len([each for each in caplog.messages if said in each]) == 1


def test_an_offset_of_a_topic_without_a_node_counts() -> None:
    assert answered(read_offsets("g", [UNKNOWN], {}))[0] == {UNKNOWN: OffsetAndMetadata(9)}


def test_the_node_of_a_topic_is_read_once_however_many_partitions_it_has() -> None:
    _, paths = answered(read_offsets("g", [OLD, NEW, NONE], {}))
    assert paths.count("/brokers/topics/t") == 1


def test_offsets_of_no_partition_need_no_request() -> None:
    with pytest.raises(StopIteration):
        next(read_offsets("g", [], {}))
