"""Fetch and ListOffsets with both isolation levels."""

from pathlib import Path

import pytest

from pyklient.kernel import encode_batch
from pyklient.protocol.messages import (
    FetchRequest,
    FetchResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from pyklient.protocol.records import NewRecord
from tests.broker.handlers.test_fetch import values
from tests.broker.several_nodes import SeveralNodes
from tests.broker.wire_client import WireClient

LATEST = -1
READ_UNCOMMITTED, READ_COMMITTED = 0, 1


@pytest.mark.parametrize(("level", "end"), [(READ_UNCOMMITTED, 4), (READ_COMMITTED, 2)])
def test_read_committed_ends_at_the_last_stable_offset(tmp_path: Path, level: int, end: int) -> None:
    with SeveralNodes(tmp_path / "data", 1) as cluster, WireClient(cluster.nodes[0].endpoint) as client:
        node = cluster.nodes[0]
        cluster.call(lambda: node.controller.create_topic("clicks", 1, {}))
        for number in range(4):
            client.produce("clicks", 0, encode_batch([NewRecord(1000, None, b"%d" % number)]))
        node.logs.by_partition["clicks", 0].watermarks.last_stable_offset = 2
        listed = client.ask(
            ListOffsetsRequest(
                replica_id=-1,
                isolation_level=level,
                topics=[
                    ListOffsetsRequest.ListOffsetsTopic(
                        name="clicks",
                        partitions=[
                            ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=LATEST)
                        ],
                    )
                ],
            ),
            ListOffsetsResponse,
        )
        assert listed.topics[0].partitions[0].offset == end
        wanted = FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        fetched = client.ask(
            FetchRequest(
                max_wait_ms=0,
                min_bytes=1,
                max_bytes=1 << 20,
                isolation_level=level,
                topics=[FetchRequest.FetchTopic(topic="clicks", partitions=[wanted])],
            ),
            FetchResponse,
            12,
        )
        [data] = fetched.responses[0].partitions
        assert (data.high_watermark, data.last_stable_offset) == (4, 2)
        assert [offset for offset, _ in values(data)] == list(range(end))
