"""What a mirror does when its partitions are revoked, lost and assigned once more."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from pyklient import Admin, KafkaTimeoutError, Message, Producer, TopicPartition, Whitelist, kernel
from pyklient.broker import Broker
from pyklient.error_codes import ErrorCode
from pyklient.errors import broker_error
from pyklient.mirror import ProducerRecord, assignment_changes, deleted_topics
from pyklient.mirror.mirror_task import MirrorTask
from pyklient.mirror.producer_record import Handler
from pyklient.mirror.rules import Rules
from pyklient.mirror.sent_records import SentRecords
from tests.kernel.appending import Bench
from tests.mirror.running import running, stored, until
from tests.servers.fixtures import NewName


def test_a_partition_that_comes_back_is_read_from_its_committed_offset(
    source: Broker, target: Broker, new_name: NewName, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new topic makes the only member give back all partitions, and get them again. Its records are not
    committed, as if the target had not confirmed them."""
    topic = new_name()
    with Admin(source.bootstrap_servers) as admin, Producer(source.bootstrap_servers) as producer:
        admin.create_topic(topic)
        producer.send_many(topic, [b"v"] * 50)
        producer.flush()
        monkeypatch.setattr(SentRecords, "positions", lambda *_: {})
        reading = {"bootstrap_servers": source.bootstrap_servers, "metadata_max_age_ms": 200}
        with running(reading, target.bootstrap_servers, f"{topic}.*", group_id=new_name()):
            until(lambda: stored(target.bootstrap_servers, topic) == 50, "all records")
            admin.create_topic(f"{topic}.new")
            until(lambda: stored(target.bootstrap_servers, topic) >= 100, "the copies of uncommitted records")


def new_task(
    targets: Any, stopping: threading.Event, handler: Handler | None = None
) -> tuple[MirrorTask, list[dict[TopicPartition, int]]]:
    """Return a task that copies nothing by itself, and the list of its commits."""
    commits: list[dict[TopicPartition, int]] = []
    connector: Any = SimpleNamespace(commit_offsets=commits.append)
    producer: Any = SimpleNamespace(flush=lambda _timeout: None, send=lambda *_: None)
    rules = Rules(Whitelist(".*"), True, handler, True, 5.0, None)
    admin: Any = SimpleNamespace(topics=lambda **_: ["t"])
    task = MirrorTask(connector, admin, producer, targets, rules, None, stopping)
    task.changes.task_makes_them = True
    return task, commits


def message(topic: str, partition: int, offset: int) -> Message:
    return Message(topic, partition, offset, 0, 0, b"k", b"v")


def test_a_rebalance_does_not_wait_for_a_target_that_is_down() -> None:
    """The task tries to send a message of a partition that is then revoked: it leaves this message out, and
    does not count it as sent."""
    tried, down = threading.Event(), threading.Event()

    def prepare(*_: object) -> None:
        tried.set()
        raise KafkaTimeoutError("the target cluster is down")

    targets = SimpleNamespace(has=lambda _topic, partition: partition != 0, prepare=prepare)
    task, commits = new_task(targets, down)
    revoked, kept = TopicPartition("t", 0), TopicPartition("t", 1)
    task.sent.add([(revoked, 4, 5, None), (kept, 8, 9, None)])
    sending = threading.Thread(target=task._sender.send, args=([message("t", 0, 5), message("t", 0, 6)],))
    sending.start()
    try:
        assert tried.wait(30)
        task.changes.on_partitions_revoked([revoked])
    finally:
        sending.join(30)
        down.set()
    assert not sending.is_alive()
    assert commits == [{revoked: 5}]
    task._look_for_results()
    assert task.sent.positions() == {kept: 9}


def test_partitions_that_were_revoked_long_ago_are_not_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another member owns them by now, and may have committed larger offsets."""
    monkeypatch.setattr(assignment_changes, "_CHANGE_TIMEOUT", 0.05)
    task, commits = new_task(None, threading.Event())
    where = TopicPartition("t", 0)
    task.sent.add([(where, 4, 5, None)])
    task.sent.pop_done()
    task.changes.on_partitions_revoked([where])  # in vain: no thread makes the change
    task.changes.make_all()
    assert commits == []
    assert task.sent.positions() == {}


def test_records_of_a_topic_that_no_cluster_has_are_left_out(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(deleted_topics, "_SURELY_GONE", 0.0)
    forgotten: list[str] = []

    def prepare(*_: object) -> None:
        raise broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "topic 'gone'")

    has, kept = (lambda topic, _partition: topic != "gone"), TopicPartition("t", 0)
    targets = SimpleNamespace(has=has, prepare=prepare, forget=forgotten.append)
    task, _ = new_task(targets, threading.Event())
    task.sent.add([(kept, 8, 9, None)])
    task._sender.send([message("gone", 0, 5), message("gone", 0, 6)])
    task._look_for_results()
    assert task.sent.positions() == {kept: 9}
    assert forgotten == ["gone"]
    assert "the last records of gone-0 are not mirrored" in caplog.text


def test_a_message_counts_when_all_records_of_the_handler_are_confirmed() -> None:
    bench, where = Bench(kernel), TopicPartition("t", 0)
    bench.open(2, "t")
    copies = [ProducerRecord("t", b"v", partition=number) for number in (0, 1)]
    task, _ = new_task(SimpleNamespace(has=lambda *_: True), threading.Event(), lambda _: copies)
    task._sender._producer = SimpleNamespace(send=bench.appender.send)  # type: ignore[assignment]
    batches = [bench.appender.current_batch("t", number) for number in (0, 1)]
    task._sender.send([message("t", 0, 5)])
    for batch, expected in zip(batches, ({}, {where: 6}), strict=True):
        assert batch is not None
        bench.appender.seal_batch(batch)
        batch.report(0, 1, 9, -1, None)
        task._look_for_results()
        assert {each: at for each, at in task.sent.positions().items() if at > 5} == expected


def test_a_closed_mirror_sends_no_more_of_the_messages_in_hand() -> None:
    """They may be many, and the target cluster may be slow."""
    stopping = threading.Event()
    targets = SimpleNamespace(has=lambda *_: True)
    task, _ = new_task(targets, stopping)
    stopping.set()
    task._sender.send([message("t", 0, 5)])
    task._look_for_results()
    assert task.sent.positions() == {}
