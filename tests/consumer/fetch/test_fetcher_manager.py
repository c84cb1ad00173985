"""Start points of partitions of which some have no leader."""

import threading
from types import MappingProxyType
from typing import Any

from pyklient.config import ConsumerConfig
from pyklient.consumer.fetch.fetch_position import Cursor
from pyklient.consumer.fetch.fetcher_handover import FetchedPartition
from pyklient.consumer.fetch.fetcher_manager import FetcherManager
from pyklient.consumer.owned_partitions import OwnedPartition
from pyklient.errors import ClosedError
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
    cursor = Cursor(OwnedPartition(ONE), position=None, reset="latest")
    cursor.start_point = "beginning"
    assert fetchers._lookup._find_starts([FetchedPartition(cursor, Bench().stream.queue)])
    assert client.played[-1] == {ONE: "beginning"}
    assert cursor.position == 7
    assert cursor.successor(None).start_point is None, "from now on, reset says what to look up"


class Hanging(OneOffline):
    """A client whose brokers do not answer before the client is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.closed = threading.Event(), threading.Event()

    def play(self, dialogue: Any, timeout: float) -> dict[TopicPartition, int]:
        self.asked.set()
        assert self.closed.wait(30)
        raise ClosedError("closed")


def test_a_lookup_of_start_points_does_not_wait_for_brokers_once_the_connector_closes() -> None:
    client: Any = Hanging()
    fetchers = FetcherManager(client, ConsumerConfig())
    found: list[dict[TopicPartition, int]] = []
    waiting = threading.Thread(target=lambda: found.append(fetchers.find_starts({ZERO: "end", TWO: 3}, 60)))
    waiting.start()
    assert client.asked.wait(30)
    fetchers.close(0)
    waiting.join(10)
    assert found == [{TWO: 3}]
    assert fetchers.find_starts({ZERO: "end"}, 60) == {}, "a lookup after close() waits for nothing either"
    client.closed.set()
    fetchers.close(10)
    assert not [each for each in threading.enumerate() if each.name == "pyklient-start-lookup"]


def test_threads_that_look_up_start_points_at_once_all_stop_waiting_when_the_connector_closes() -> None:
    client: Any = Hanging()
    fetchers = FetcherManager(client, ConsumerConfig())
    queue, found = Bench().stream.queue, list[bool]()

    def find(partition: TopicPartition) -> None:
        cursor = Cursor(OwnedPartition(partition), position=None, reset="latest")
        found.append(fetchers.find_start(queue, cursor, 60))

    threads = [threading.Thread(target=find, args=(each,)) for each in (ZERO, TWO)]
    for thread in threads:
        thread.start()
        assert client.asked.wait(30)
        client.asked.clear()
    fetchers.close(0)
    for thread in threads:
        thread.join(30)
    assert found == [False, False]
    client.closed.set()
    fetchers.close(10)
    assert not [each for each in threading.enumerate() if each.name == "pyklient-start-lookup"]
