"""Start points of partitions of which some have no leader."""

from types import MappingProxyType
from typing import Any

from pyklient.config import ConsumerConfig
from pyklient.consumer.fetch.fetch_position import Cursor
from pyklient.consumer.fetch.fetcher_manager import FetcherManager
from pyklient.consumer.owned_partitions import OwnedPartition
from pyklient.net.metadata import Metadata, Node, PartitionInfo, TopicInfo
from pyklient.topic_partition import TopicPartition
from tests.consumer.stream.bench import Bench

ZERO, ONE, TWO = (TopicPartition("t", number) for number in range(3))


class OneOffline:
    """A client for a cluster in which t-1 has no leader. Every log begins at offset 7."""

    def __init__(self) -> None:
        infos = {0: PartitionInfo(7), 1: PartitionInfo(-1), 2: PartitionInfo(7)}
        topics = {"t": TopicInfo("t", partitions=MappingProxyType(infos))}
        self.metadata = Metadata(nodes={7: Node(7, "localhost", 1)}, topics=topics)
        self.played: list[Any] = []

    def refresh_metadata(self, topics: object, timeout: float) -> Metadata:
        return self.metadata

    def on_cluster_change(self, call: object) -> None: ...

    def play(self, dialogue: Any, timeout: float) -> dict[TopicPartition, int]:
        points = dialogue.gi_frame.f_locals["points"]
        self.played.append(points)
        return {each: point if isinstance(point, int) else 7 for each, point in points.items()}


def test_a_partition_without_a_leader_delays_no_other_partition_and_begins_at_its_start_point_later() -> None:
    client: Any = OneOffline()
    fetchers = FetcherManager(client, ConsumerConfig(auto_offset_reset="latest"))
    points: Any = {ZERO: "beginning", ONE: "beginning", TWO: 3}
    assert fetchers.find_starts(points, 1.0) == {ZERO: 7, TWO: 3}
    cursor = Cursor(OwnedPartition(ONE), Bench().stream.queue, position=None, reset="latest")
    cursor.start_point = "beginning"
    assert fetchers._lookup._find_starts([cursor])
    assert client.played[-1] == {ONE: "beginning"}
    assert cursor.position == 7
    assert cursor.successor(None).start_point is None, "from now on, reset says what to look up"
