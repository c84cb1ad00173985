"""After a clean stop a broker starts without reading its logs again, unless their files have changed."""

import logging
import os
from pathlib import Path
from typing import Any

import pytest

from pyklient.broker import Broker
from pyklient.broker.log.clean_shutdown import decode_states, encode_states
from pyklient.error_codes import ErrorCode
from pyklient.kernel import encode_batch
from pyklient.protocol.records import (
    NewRecord,
)
from tests.broker.handlers.test_fetch import fetch, request, values
from tests.broker.test_crash_recovery import Child
from tests.broker.wire_client import WireClient

RECORDS = 700
SEGMENT = 20_000


def batch(value: bytes, **options: Any) -> bytes:
    return encode_batch([NewRecord(1000, None, value)], **options)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The directory of a broker that was stopped cleanly, with a log of several segments."""
    directory = tmp_path / "data"
    with opened(directory) as broker, WireClient(broker) as client:
        broker.create_topic("clicks")
        broker.create_topic("quiet", 3)
        for number in range(RECORDS):
            client.produce("clicks", 0, batch(b"%06d" % number))
    assert len(list(directory.glob("clicks-0/*.log"))) > 2
    return directory


def opened(directory: Path) -> Broker:
    return Broker(data_dir=directory, segment_bytes=SEGMENT)


def spoil(path: Path, position: int) -> None:
    """Overwrite a part of the file without changing its size."""
    with path.open("r+b") as file:
        file.seek(position)
        file.write(b"\xff" * 100)


def segments(directory: Path) -> list[Path]:
    return sorted(directory.glob("clicks-0/*.log"))


def end(client: WireClient) -> int:
    return client.offset_at("clicks", 0, -1)[0]


def test_a_start_after_a_clean_stop_does_not_read_the_batches_that_are_there(
    data: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spoil(segments(data)[-1], 0)
    caplog.set_level(logging.INFO, "pyklient.broker")
    with opened(data) as broker, WireClient(broker) as client:
        assert end(client) == RECORDS
        assert client.produce("clicks", 0, batch(b"next")).base_offset == RECORDS
        [found] = fetch(client, request(RECORDS))
        assert values(found) == [(RECORDS, b"next")]
    assert "of the log were checked" not in caplog.text


def test_positions_and_times_are_the_same_after_a_clean_stop(data: Path) -> None:
    with opened(data) as broker, WireClient(broker) as client:
        newest = client.offset_at("clicks", 0, -3)
        client.produce("clicks", 0, encode_batch([NewRecord(5_000, None, b"later")]))
    assert newest == (0, 1000)
    with opened(data) as broker, WireClient(broker) as client:
        assert client.offset_at("clicks", 0, 4_000) == (RECORDS, 5_000)
        assert client.offset_at("clicks", 0, -3) == (RECORDS, 5_000)
        for offset in (0, 333, RECORDS - 1):
            [found] = fetch(client, request(offset))
            assert values(found, offset)[0] == (offset, b"%06d" % offset)


def test_an_index_goes_on_after_a_clean_stop_as_if_there_had_been_none(tmp_path: Path) -> None:
    stopped, running = tmp_path / "stopped", tmp_path / "running"
    for directory, stops in ((stopped, 5), (running, 1)):
        with Broker(data_dir=directory) as broker:
            broker.create_topic("clicks")
        for _ in range(stops):
            with Broker(data_dir=directory) as broker, WireClient(broker) as client:
                for number in range(500 // stops):
                    client.produce("clicks", 0, batch(b"%06d" % number))
    indexes = [next(directory.glob("clicks-0/*.index")).read_bytes() for directory in (stopped, running)]
    assert indexes[0] == indexes[1] != b""


def test_producers_are_known_after_a_clean_stop(data: Path) -> None:
    sent = [batch(b"v", producer_id=7, producer_epoch=1, base_sequence=at) for at in range(7)]
    with opened(data) as broker, WireClient(broker) as client:
        offsets = [client.produce("clicks", 0, each).base_offset for each in sent]
    for _ in range(2):
        with opened(data) as broker, WireClient(broker) as client:
            assert [client.produce("clicks", 0, each).base_offset for each in sent[2:]] == offsets[2:]
            gap = batch(b"v", producer_id=7, producer_epoch=1, base_sequence=9)
            assert client.produce("clicks", 0, gap).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            fenced = batch(b"v", producer_id=7, producer_epoch=0, base_sequence=7)
            assert client.produce("clicks", 0, fenced).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
            assert end(client) == RECORDS + len(sent)


@pytest.mark.parametrize("cut", [1, 30, 200])
def test_a_file_that_was_cut_after_a_clean_stop_is_read(
    data: Path, cut: int, caplog: pytest.LogCaptureFixture
) -> None:
    active = segments(data)[-1]
    os.truncate(active, active.stat().st_size - cut)
    lost = -(-cut // len(batch(b"000000")))
    with opened(data) as broker, WireClient(broker) as client:
        assert end(client) == RECORDS - lost
        assert client.produce("clicks", 0, batch(b"next")).base_offset == RECORDS - lost
    assert "files have changed since the last clean shutdown" in caplog.text


def test_a_file_that_has_grown_or_gone_since_a_clean_stop_is_noticed(data: Path) -> None:
    with segments(data)[-1].open("ab") as file:
        file.write(b"garbage")
    with opened(data) as broker, WireClient(broker) as client:
        assert end(client) == RECORDS
    segments(data)[-1].unlink()
    kept = int(next(reversed(segments(data))).stem)
    with opened(data) as broker, WireClient(broker) as client:
        assert kept < end(client) < RECORDS


def test_a_tail_that_does_not_match_its_checksum_is_noticed_after_a_clean_stop(data: Path) -> None:
    active = segments(data)[-1]
    with active.open("r+b") as file:
        file.seek(-2, os.SEEK_END)
        file.write(b"XX")
    with opened(data) as broker, WireClient(broker) as client:
        assert end(client) == RECORDS - 1


def test_an_index_that_was_lost_after_a_clean_stop_is_built_anew(data: Path) -> None:
    index = segments(data)[0].with_suffix(".index")
    entries = index.read_bytes()
    assert entries
    index.unlink()
    with opened(data) as broker, WireClient(broker) as client:
        assert end(client) == RECORDS
    assert index.read_bytes() == entries


def test_a_broker_that_was_killed_reads_its_logs_although_it_was_stopped_cleanly_before(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "data"
    with opened(directory) as broker, WireClient(broker) as client:
        broker.create_topic("other")
        for number in range(50):
            client.produce("other", 0, batch(b"%06d" % number))
    child = Child(directory)
    child.kill()
    size = len(batch(b"000000"))
    spoil(directory / "other-0" / f"{0:020}.log", 10 * size)
    with opened(directory) as broker, WireClient(broker) as client:
        assert client.offset_at("other", 0, -1)[0] == 10


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": 99, "logs": {}}'])
def test_a_mark_that_cannot_be_read_counts_as_none(
    data: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (data / ".clean").write_bytes(content)
    caplog.set_level(logging.INFO, "pyklient.broker")
    with opened(data) as broker, WireClient(broker) as client:
        assert end(client) == RECORDS
    assert "of the log were checked" in caplog.text


def test_a_broker_that_could_not_start_leaves_no_mark_of_a_clean_stop(data: Path) -> None:
    facts = data / "broker.json"
    sound = facts.read_text()
    facts.write_text(sound.replace('"id": "', '"id": "no hex'))
    with pytest.raises(ValueError, match="non-hexadecimal"):
        opened(data).start()
    facts.write_text(sound)
    spoil(segments(data)[-1], 0)
    with opened(data) as broker, WireClient(broker) as client:
        assert end(client) < RECORDS


def test_the_state_of_logs_is_the_same_after_it_was_written_and_read(data: Path) -> None:
    written = (data / ".clean").read_bytes()
    states = decode_states(written)
    assert set(states) == {"clicks-0", "quiet-0", "quiet-1", "quiet-2"}
    assert encode_states(states) == written
