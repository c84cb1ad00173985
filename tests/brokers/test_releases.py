"""The features that work on a broker of each release, and the errors for the other features."""

import struct
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow
import pytest

import pyklient
from pyklient import (
    Admin,
    BrokerError,
    ConsumerConnector,
    KafkaError,
    OffsetAndMetadata,
    Producer,
    SimpleConsumer,
    TopicPartition,
    UnsupportedCodecError,
    UnsupportedVersionError,
)
from pyklient.consumer.owned_partitions import NOBODY
from tests.brokers.records import START_MS, Sent, records
from tests.brokers.release import Release
from tests.consumer.offsets.stores import open_store
from tests.servers.fixtures import NewName

_QUICK: dict[str, Any] = {"auto_offset_reset": "earliest", "consumer_timeout_ms": 20_000}


def send(producer: Producer, topic: str, sent: list[Sent]) -> None:
    for record in sent:
        timestamp_ms = record.timestamp_ms if record.timestamp_ms >= 0 else None
        producer.send(
            topic, record.value, record.key, 0, timestamp_ms=timestamp_ms, headers=record.headers or None
        )
    producer.flush(60)


def as_sent(message: pyklient.Message) -> Sent:
    return Sent(message.key, message.value, message.timestamp_ms, tuple(message.headers))


def text(data: bytes | None) -> str:
    assert data is not None
    return data.decode()


def test_records_in_each_codec_are_what_other_clients_read(release: Release, new_name: NewName) -> None:
    topic = release.new_topic(new_name())
    written: list[Sent] = []
    for codec in release.codecs:
        sent = records(codec, timestamps=release.has_timestamps, headers=release.has_headers)
        options: dict[str, Any] = {"compression_type": codec, "linger_ms": 50}
        with Producer(release.bootstrap, **options) as producer:
            send(producer, topic, sent)
        written += sent
    assert release.read(topic, len(written)) == written
    printed = release.console_read(topic, len(written))
    assert printed == [(text(each.key), text(each.value)) for each in written]


def test_records_of_other_clients_are_read_in_each_codec(release: Release, new_name: NewName) -> None:
    topic = release.new_topic(new_name())
    written: list[Sent] = []
    for codec in release.codecs:
        sent = records(codec, timestamps=release.has_timestamps, headers=release.has_headers)
        release.write(topic, sent, codec)
        written += sent
    lines = [(f"key {number}", f"line {number}") for number in range(20)]
    release.console_write(topic, lines, "gzip")
    found = list(pyklient.read(release.bootstrap, topic))
    assert [as_sent(each) for each in found[: len(written)]] == written
    assert [(text(each.key), text(each.value)) for each in found[len(written) :]] == lines
    assert [each.offset for each in found] == list(range(len(written) + len(lines)))
    with SimpleConsumer(release.bootstrap) as consumer:
        fetched = consumer.fetch(topic, 0, 30)
    assert [each.offset for each in fetched] == list(range(30, fetched.next_offset))
    assert len(fetched) >= 30, "a fetch ends with the log's segment, and the times of the lines begin another"


def test_what_is_handed_out_again_is_the_same_as_messages_and_as_columns(
    release: Release, new_name: NewName
) -> None:
    topic = release.new_topic(new_name())
    with Producer(release.bootstrap, compression_type="gzip", linger_ms=50) as producer:
        producer.send_many(topic, [b"%d" % number for number in range(300)])
    handed: list[int] = []
    options: dict[str, Any] = {**_QUICK, "bootstrap_servers": release.bootstrap}
    with ConsumerConnector(**options) as connector:
        stream = connector.stream(topic)
        for message in stream:
            assert message.value == b"%d" % message.offset
            handed.append(message.offset)
            if message.offset in (0, 150, 299) and handed.count(message.offset) == 1:
                stream.redeliver()
            elif message.offset == 299:
                break
    assert handed == sorted([*range(300), 0, 150, 299])
    with ConsumerConnector(**options) as connector:
        stream = connector.stream(topic)
        batches = stream.arrow_batches(timeout=30)
        first = next(batches)
        stream.redeliver()
        again = next(batches)
    first_rows, rows = (pyarrow.Table.from_batches([each]).to_pylist() for each in (first, again))
    assert rows == first_rows
    assert [(row["offset"], row["value"]) for row in rows] == [
        (number, b"%d" % number) for number in range(len(rows))
    ]


def test_a_group_goes_on_at_the_offsets_that_other_clients_see(release: Release, new_name: NewName) -> None:
    topic, group = release.new_topic(new_name(), 2), new_name()
    with Producer(release.bootstrap) as producer:
        for number in range(40):
            producer.send(topic, b"%d" % number, partition=number % 2)
    options = {**_QUICK, "group_id": group, "enable_auto_commit": False}
    if release.version < (0, 9):
        with (
            ConsumerConnector(release.bootstrap, **options) as connector,
            pytest.raises(UnsupportedVersionError, match=r"JoinGroup, which needs Kafka 0\.9 or later"),
        ):
            next(iter(connector.stream(topic)))
        return
    if release.version < (2, 3):
        with (
            ConsumerConnector(release.bootstrap, **options, group_instance_id="one") as connector,
            pytest.raises(UnsupportedVersionError, match=r"JoinGroup.*, which needs Kafka 2\.3 or later"),
        ):
            next(iter(connector.stream(topic)))
    values: list[bytes | None] = []
    for count in (15, 25):
        with ConsumerConnector(release.bootstrap, **options) as connector:
            loop = iter(connector.stream(topic))
            values += [next(loop).value for _ in range(count)]
            connector.commit_offsets()
    assert sorted(map(text, values)) == sorted(str(number) for number in range(40))
    assert release.committed(group, topic, 2) == {0: 20, 1: 20}
    with Admin(release.bootstrap) as admin:
        offsets = admin.group_offsets(group)
    assert {where.partition: stored.offset for where, stored in offsets.items()} == {0: 20, 1: 20}


def test_offsets_are_committed_to_kafka_without_a_group_of_kafkas(
    release: Release, new_name: NewName
) -> None:
    """Members of a ZooKeeper group may keep their offsets so, also with Kafka 0.8."""
    topic, group = release.new_topic(new_name(), 2), new_name()
    where = [TopicPartition(topic, number) for number in range(2)]
    with open_store(release.server, "kafka", group) as store:
        assert store.fetch(where, 30) == dict.fromkeys(where)
        assert not store.commit({where[0]: OffsetAndMetadata(7, "note")}, NOBODY, 30)
        found = store.fetch(where, 30)
    assert found[where[1]] is None
    kept = found[where[0]]
    assert kept is not None
    assert (kept.offset, kept.metadata) == (7, "note")
    assert release.committed(group, topic, 1) == {0: 7}


def test_committed_offsets_are_kept_for_the_time_that_was_asked_for(
    release: Release, new_name: NewName
) -> None:
    topic, group = release.new_topic(new_name()), new_name()
    where = TopicPartition(topic, 0)
    before = int(time.time() * 1000)
    with open_store(release.server, "kafka", group, offsets_retention_ms=7_200_000) as store:
        if release.version < (0, 9):
            with pytest.raises(UnsupportedVersionError, match=r"OffsetCommit.*, which needs Kafka 0\.9"):
                store.commit({where: OffsetAndMetadata(7)}, NOBODY, 30)
            return
        assert not store.commit({where: OffsetAndMetadata(7)}, NOBODY, 30)
    [written] = [
        message.value
        for message in pyklient.read(release.bootstrap, "__consumer_offsets")
        if message.key is not None and group.encode() in message.key and topic.encode() in message.key
    ]
    assert written is not None
    version, offset, note = struct.unpack_from(">hqh", written)
    assert (version, offset, note) == (1, 7, 0)
    committed, expires = struct.unpack_from(">qq", written, 12)
    assert before <= committed <= time.time() * 1000
    assert expires - committed == 7_200_000


def test_an_offset_is_found_by_time(release: Release, new_name: NewName) -> None:
    topic = release.new_topic(new_name())
    release.write(topic, records("r", timestamps=release.has_timestamps, headers=False), "none")
    wanted = datetime.fromtimestamp(START_MS / 1000 + 10, UTC)
    long_ago, later = datetime.fromtimestamp(1, UTC), datetime.now(UTC) + timedelta(hours=1)

    def offsets(start: datetime) -> list[int]:
        return [message.offset for message in pyklient.read(release.bootstrap, topic, start=start)]

    assert offsets(long_ago) == list(range(20))
    assert offsets(later) == []
    if release.version < (0, 10, 1):
        with pytest.raises(UnsupportedVersionError, match=r"ListOffsets.*, which needs Kafka 0\.10\.1"):
            pyklient.read(release.bootstrap, topic, end=wanted)
    else:
        assert len(list(pyklient.read(release.bootstrap, topic, end=wanted))) == 10
    # Before 0.10.1 the time is that of the log's segment: nothing is skipped, and earlier records may come.
    assert offsets(wanted) == list(range(10 if release.version >= (0, 10, 1) else 0, 20))


def test_closing_a_producer_without_acknowledgements_loses_no_record_and_keeps_the_order(
    release: Release, new_name: NewName
) -> None:
    topic = release.new_topic(new_name())
    sent = []
    for number in range(5):
        with Producer(release.bootstrap, acks=0, linger_ms=0, batch_size=0) as producer:
            values = [b"%d %03d" % (number, each) for each in range(200)]
            producer.send_many(topic, values)
        sent += values
    assert [message.value for message in pyklient.read(release.bootstrap, topic)] == sent


@pytest.mark.restarts
def test_nothing_is_lost_over_a_restart_of_the_broker(release: Release, new_name: NewName) -> None:
    topic = release.new_topic(new_name())
    found: list[str] = []
    with (
        ConsumerConnector(release.bootstrap, **{**_QUICK, "consumer_timeout_ms": 60_000}) as connector,
        Producer(release.bootstrap, acks="all", delivery_timeout_ms=60_000) as producer,
    ):
        loop = iter(connector.stream(topic))
        for number in range(50):
            producer.send(topic, b"%d" % number)
        producer.flush(60)
        found += [text(next(loop).value) for _ in range(20)]
        release.server.kill()
        for number in range(50, 100):
            producer.send(topic, b"%d" % number)
        release.server.restart()
        producer.flush(60)
        found += [text(next(loop).value) for _ in range(80)]
    assert found == [str(number) for number in range(100)]


def test_a_message_that_an_old_broker_cuts_off_is_read_whole(release: Release, new_name: NewName) -> None:
    topic = release.new_topic(new_name())
    values = [b"small", b"x" * 200_000, b"small again"]
    release.write(topic, [Sent(None, value, START_MS, ()) for value in values], "none")
    found = pyklient.read(release.bootstrap, topic, max_partition_fetch_bytes=1_000)
    assert [message.value for message in found] == values


def test_what_a_broker_lacks_is_an_error_that_names_the_release(release: Release, new_name: NewName) -> None:
    topic = release.new_topic(new_name())
    version = release.version

    def outcome(**options: Any) -> str:
        headers = options.pop("headers", None)
        sent = False
        try:
            with Producer(release.bootstrap, **options) as producer:
                delivery = producer.send(topic, b"x", headers=headers)
                sent = True
                delivery.result(20)
        except (UnsupportedVersionError, UnsupportedCodecError) as error:
            assert not sent, "send itself raises the error"
            return str(error)
        return ""

    for said, needed, first in (
        (outcome(enable_idempotence=True), "needs Kafka 0.11 or later", (0, 11)),
        (outcome(headers=[("h", b"1")]), "use Kafka 0.11 or later", (0, 11)),
        (outcome(compression_type="zstd"), "needs Kafka 2.1 or later", (2, 1)),
    ):
        assert needed in said if version < first else said == ""


def test_admin_does_what_the_broker_can(release: Release, new_name: NewName) -> None:
    topic, created, missing = release.new_topic(new_name(), 2), new_name(), new_name()
    release.write(topic, records("r", 3, timestamps=False, headers=False), "none")
    with Admin(release.bootstrap) as admin:
        assert topic in admin.topics()
        described = admin.describe_topic(topic)
        assert [partition.leader for partition in described.partitions] == [
            node.id for node in admin.cluster().brokers for _ in range(2)
        ]
        ends = admin.end_offsets([TopicPartition(topic, number) for number in range(2)])
        assert list(ends.values()) == [3, 0]
        with pytest.raises(BrokerError, match="no such topic"):
            admin.describe_topic(missing)
        assert missing not in admin.topics(), "asking for a topic must not create it"
        if release.version >= (0, 10, 1):
            admin.create_topic(created)
            admin.delete_topic(created)
        else:
            began = time.monotonic()
            with pytest.raises(KafkaError, match=r"CreateTopics, which needs Kafka 0\.10\.1 or later"):
                admin.create_topic(created)
            assert time.monotonic() - began < 25, "waiting does not help"
