"""Records that a broker has acknowledged are still there after a SIGKILL."""

import itertools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyklient.broker import Broker
from pyklient.kernel import encode_batch, read_records
from pyklient.protocol.messages import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from pyklient.protocol.records import (
    NewRecord,
    iter_batches,
)
from tests.broker.handlers.test_fetch import fetch, request
from tests.broker.wire_client import WireClient

PROGRAM = """
import sys
from pyklient.broker import Broker
with Broker(data_dir=sys.argv[1], segment_bytes=20_000) as broker:
    broker.create_topic("clicks")
    print(broker.port, flush=True)
    broker.wait()
"""


class Child:
    """A broker in a separate process. ``port`` is the port that a client needs."""

    def __init__(self, directory: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(directory)], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Child]:
    running = Child(tmp_path / "data")
    yield running
    if running.process.poll() is None:
        running.kill()


def test_every_acknowledged_record_survives_and_segments_go_on(child: Child, tmp_path: Path) -> None:
    sent = 0
    with WireClient(child) as client:
        for number in itertools.count():
            records = [NewRecord(1000, None, b"%06d" % (sent + at)) for at in range(7)]
            answer = client.produce("clicks", 0, encode_batch(records))
            assert (answer.error_code, answer.base_offset) == (0, sent)
            sent += 7
            if len(list(tmp_path.glob("data/clicks-0/*.log"))) > 3:
                break
            assert number < 2_000
    child.kill()
    last = max(tmp_path.glob("data/clicks-0/*.log"))
    with last.open("ab") as file:
        file.write(encode_batch([NewRecord(1, None, b"never acknowledged")])[:-3])
    with Broker(data_dir=tmp_path / "data", segment_bytes=20_000) as broker, WireClient(broker) as client:
        assert client.offset_at("clicks", 0, -1)[0] == sent
        position = 0
        while position < sent:
            [data] = fetch(client, request(position, partition_bytes=1 << 24))
            for found in iter_batches(data.records or b""):
                found.verify()
                assert [record.value for record in read_records(found)] == [
                    b"%06d" % offset for offset in range(position, found.next_offset)
                ]
                position = found.next_offset
        assert client.produce("clicks", 0, encode_batch([NewRecord(1, None, b"x")])).base_offset == sent


def test_a_settled_group_goes_on_without_a_new_round(child: Child, tmp_path: Path) -> None:
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"subscription")
    with WireClient(child) as client:
        joined = client.ask(
            JoinGroupRequest(
                group_id="g",
                session_timeout_ms=30_000,
                protocol_type="consumer",
                protocols=[protocol],
            ),
            JoinGroupResponse,
            2,
        )
        assert joined.error_code == 0
        assignment = SyncGroupRequest.SyncGroupRequestAssignment(
            member_id=joined.member_id, assignment=b"mine"
        )
        client.ask(
            SyncGroupRequest(
                group_id="g", generation_id=1, member_id=joined.member_id, assignments=[assignment]
            ),
            SyncGroupResponse,
        )
    child.kill()
    with Broker(data_dir=tmp_path / "data") as broker, WireClient(broker) as client:
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id=joined.member_id)
        assert client.ask(beat, HeartbeatResponse).error_code == 0
        [group] = client.ask(DescribeGroupsRequest(groups=["g"]), DescribeGroupsResponse).groups
        assert (group.group_state, group.protocol_data) == ("Stable", "range")
        assert [member.member_assignment for member in group.members] == [b"mine"]
