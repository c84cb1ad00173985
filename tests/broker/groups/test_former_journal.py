"""Data directories of earlier releases, which stored groups in the file ``offsets.jsonl``."""

import json
from pathlib import Path

import pytest

from pyklient import Admin
from pyklient.broker import Broker
from tests.servers.groups import committed

MEMBER = {
    "member_id": "m",
    "instance_id": None,
    "client_id": "c",
    "client_host": "/127.0.0.1",
    "session_timeout_ms": 30_000,
    "rebalance_timeout_ms": 60_000,
    "protocols": [["range", "AAAAAAABAAZjbGlja3MAAAAA"]],
    "assignment": "",
}
GENERATION = {
    "generation": 3,
    "protocol_type": "consumer",
    "protocol": "range",
    "leader": "m",
    "members": [MEMBER],
}
LINES = [
    {"group": "g", "commit": [["clicks", 0, 5, 0, "note"], ["gone", 0, 1, -1, ""]]},
    {"group": "h", "commit": [["clicks", 0, 7, -1, ""]]},
    {"group": "g", "commit": [["clicks", 0, 6, 0, "ünïcode"]]},
    {"group": "deleted", "commit": [["clicks", 0, 9, 0, ""]]},
    {"group": "members", "generation": GENERATION},
    {"topic": "gone", "deleted": True},
    {"group": "deleted", "deleted": True},
]


@pytest.mark.parametrize("torn", [b"", b'{"group":"g","comm', b"\x00\xff\n", b'["not", "ours"]\n'])
def test_groups_of_an_earlier_release_are_carried_over_once(
    tmp_path: Path, torn: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with Broker(data_dir=tmp_path) as broker:
        broker.create_topic("clicks")
    journal = tmp_path / "offsets.jsonl"
    journal.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in LINES) + torn)
    for _ in range(2):
        with Broker(data_dir=tmp_path) as broker:
            assert not journal.exists()
            found = [committed(broker.bootstrap_servers, group, "clicks") for group in ("g", "h", "deleted")]
            assert found == [{0: 6}, {0: 7}, {}]
            assert committed(broker.bootstrap_servers, "g", "gone") == {}
            with Admin(broker.bootstrap_servers) as admin:
                members = admin.describe_group("members")
            assert (members.state, [each.member_id for each in members.members]) == ("Stable", ["m"])
    assert ("bytes of the file were ignored" in caplog.text) is bool(torn)
