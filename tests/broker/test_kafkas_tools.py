"""Kafka's own tools read what this broker writes to disk."""

import subprocess
from pathlib import Path

import pytest

from pyklient.broker import Broker
from pyklient.kernel import encode_batch
from pyklient.protocol.records import Compression, NewRecord
from tests.broker.wire_client import WireClient
from tests.servers.java import java_command
from tests.servers.maven import kafka_libs


def dumped(*arguments: str) -> str:
    command = java_command(kafka_libs("4.3.1"), "org.apache.kafka.tools.DumpLogSegments", *arguments)
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


@pytest.mark.java
def test_dump_log_segments_reads_segments_and_finds_indexes_in_step(tmp_path: Path) -> None:
    with Broker(data_dir=tmp_path, segment_bytes=10_000) as broker, WireClient(broker) as client:
        broker.create_topic("clicks")
        for number in range(200):
            records = [NewRecord(1000 + at, b"k", b"%d" % number * 30, [("h", b"x")]) for at in range(5)]
            batch = encode_batch(records, compression=list(Compression)[number % 5])
            assert client.produce("clicks", 0, batch).error_code == 0
    logs = sorted((tmp_path / "clicks-0").glob("*.log"))
    assert len(logs) > 2
    text = dumped("--deep-iteration", "--files", ",".join(map(str, logs)))
    offsets = [int(line.split()[2]) for line in text.splitlines() if line.startswith("| offset:")]
    assert offsets == list(range(1000))
    indexes = ",".join(str(log.with_suffix(".index")) for log in logs)
    checked = dumped("--index-sanity-check", "--files", indexes)
    assert checked.count("passed sanity check") + checked.count("is empty") == len(logs)
    assert checked.count("passed sanity check") > 2
    assert "Mismatches" not in dumped("--files", indexes)
