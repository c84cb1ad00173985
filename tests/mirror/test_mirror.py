"""Mirror copies records as they are, creates topics, and commits offsets after the target has confirmed."""

import itertools
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyklient import (
    Admin,
    Blacklist,
    ClosedError,
    CommitError,
    ConfigurationError,
    DeliveryError,
    KafkaTimeoutError,
    Message,
    Mirror,
    Producer,
    TopicPartition,
)
from pyklient.broker import Broker
from pyklient.mirror import MirrorMetrics, ProducerRecord, mirror_task
from pyklient.mirror.mirror_task import MirrorTask
from pyklient.producer.mirror_producer import MirrorProducer
from tests.mirror.running import Run, by_partition, running, stored, until


def new_name() -> str:
    return f"t{uuid.uuid4().hex[:10]}"


def fill(broker: Broker, topic: str, count: int, *, partitions: int = 3, **config: str) -> None:
    """Create *topic*, and send *count* records with all that a record can have."""
    with Admin(broker.bootstrap_servers) as admin:
        if topic not in admin.topics():
            admin.create_topic(
                topic, partitions, config={name.replace("_", "."): config[name] for name in config}
            )
    send(broker, topic, count)


def send(broker: Broker, topic: str, count: int) -> None:
    with Producer(broker.bootstrap_servers) as producer:
        for number in range(count):
            producer.send(
                topic,
                None if number % 7 == 3 else b"v%d" % number,
                key=None if number % 5 == 4 else b"k%d" % (number % 11),
                timestamp_ms=1_700_000_000_000 + number * 10,
                headers=[("trace", b"%d" % number), ("empty", None)] if number % 2 else None,
            )


def committed(broker: Broker, group: str) -> dict[TopicPartition, int]:
    with Admin(broker.bootstrap_servers) as admin:
        return {tp: each.offset for tp, each in admin.group_offsets(group).items()}


def ends(broker: Broker, topic: str) -> dict[TopicPartition, int]:
    with Admin(broker.bootstrap_servers) as admin:
        return admin.end_offsets(admin.partitions([topic]))


def test_a_kept_partition_has_the_same_records_in_the_same_order(source: Broker, target: Broker) -> None:
    topic, group = new_name(), new_name()
    fill(source, topic, 1_000)
    clusters = source.bootstrap_servers, target.bootstrap_servers
    with running(*clusters, topic, group_id=group, keep_partitions=True) as run:
        until(lambda: stored(target.bootstrap_servers, topic) == 1_000, "all records")
    assert run.error is None
    assert by_partition(target.bootstrap_servers, topic) == by_partition(source.bootstrap_servers, topic)
    assert committed(source, group) == ends(source, topic)


def test_without_kept_partitions_the_key_decides(source: Broker, target: Broker) -> None:
    topic = new_name()
    fill(source, topic, 500, partitions=2)
    with Admin(target.bootstrap_servers) as admin:
        admin.create_topic(topic, 5)
    with running(source.bootstrap_servers, target.bootstrap_servers, topic, group_id=new_name()):
        until(lambda: stored(target.bootstrap_servers, topic) == 500, "all records")
    there = by_partition(source.bootstrap_servers, topic).values()
    here = by_partition(target.bootstrap_servers, topic)
    assert sorted(map(repr, itertools.chain(*there))) == sorted(map(repr, itertools.chain(*here.values())))
    homes: dict[bytes, set[int]] = {}
    for partition, records in here.items():
        for key, *_ in records:
            if key is not None:
                homes.setdefault(key, set()).add(partition)
    assert {len(each) for each in homes.values()} == {1}
    assert len(set.union(*homes.values())) > 2


def test_a_topic_is_created_as_it_is_and_grows_as_it_grows(source: Broker, target: Broker) -> None:
    topic = new_name()
    fill(source, topic, 10, partitions=2, retention_ms="86400000", min_insync_replicas="1")
    with Admin(source.bootstrap_servers) as there, Admin(target.bootstrap_servers) as here:
        reading = {"bootstrap_servers": source.bootstrap_servers, "metadata_max_age_ms": 200}
        with running(reading, target.bootstrap_servers, topic, group_id=new_name(), keep_partitions=True):
            until(lambda: stored(target.bootstrap_servers, topic) == 10, "the first records")
            found = here.describe_topic(topic)
            assert (len(found.partitions), found.config) == (2, {"retention.ms": "86400000"})
            there.create_partitions(topic, 4)
            with Producer(source.bootstrap_servers) as producer:
                producer.send(topic, b"new", partition=3)
            until(lambda: stored(target.bootstrap_servers, topic) == 11, "the record of the new partition")
        assert len(here.partitions([topic])) == 4
        assert here.end_offsets([TopicPartition(topic, 3)]) == {TopicPartition(topic, 3): 1}


def test_a_second_run_continues_where_the_first_has_ended(source: Broker, target: Broker) -> None:
    topic, group = new_name(), new_name()
    clusters = source.bootstrap_servers, target.bootstrap_servers
    fill(source, topic, 300)
    with running(*clusters, topic, group_id=group, keep_partitions=True):
        until(lambda: stored(target.bootstrap_servers, topic) == 300, "the first records")
    send(source, topic, 150)
    with running(*clusters, topic, group_id=group, keep_partitions=True):
        until(lambda: stored(target.bootstrap_servers, topic) >= 450, "all records")
    assert by_partition(target.bootstrap_servers, topic) == by_partition(source.bootstrap_servers, topic)


def test_topics_of_several_clusters_go_to_one(source: Broker, target: Broker) -> None:
    one, other, left_out = new_name(), new_name(), "left-out" + new_name()
    with Broker() as second, Broker() as goal:
        fill(second, one, 40)
        fill(second, left_out, 5)
        with Broker() as third:
            fill(third, other, 60)
            servers = [second.bootstrap_servers, {"bootstrap_servers": third.bootstrap_servers}]
            with running(servers, goal.bootstrap_servers, Blacklist("left-out.*"), group_id=new_name()):
                until(lambda: stored(goal.bootstrap_servers, one) == 40, "the topic of one cluster")
                until(lambda: stored(goal.bootstrap_servers, other) == 60, "the topic of the other cluster")
        with Admin(goal.bootstrap_servers) as admin:
            assert admin.topics() == sorted([one, other])


def test_a_handler_chooses_what_is_sent(source: Broker, target: Broker) -> None:
    topic, group = new_name(), new_name()
    fill(source, topic, 100, partitions=1)

    def handler(message: Message) -> Iterator[ProducerRecord]:
        for copy in range(message.offset % 3):  # none, one or two
            yield ProducerRecord(f"{topic}.copy", b"%d" % copy, key=b"%d" % message.offset)

    clusters = source.bootstrap_servers, target.bootstrap_servers
    with running(*clusters, topic, group_id=group, handler=handler, commit_interval=0.1):
        until(lambda: committed(source, group) == ends(source, topic), "the last commit")
    found = by_partition(target.bootstrap_servers, f"{topic}.copy")[0]
    assert [(key, value) for key, value, *_ in found] == [
        (b"%d" % offset, b"%d" % copy) for offset in range(100) for copy in range(offset % 3)
    ]


def test_an_exception_of_a_handler_ends_the_mirror_and_names_the_message(
    source: Broker, target: Broker
) -> None:
    topic, group = new_name(), new_name()
    fill(source, topic, 20, partitions=1)

    def handler(message: Message) -> list[ProducerRecord]:
        if message.offset == 5:
            raise ZeroDivisionError
        return [ProducerRecord(topic, message.value)]

    clusters = source.bootstrap_servers, target.bootstrap_servers
    with running(*clusters, topic, group_id=group, handler=handler) as run:
        run.join(60)
    assert isinstance(run.error, ZeroDivisionError)
    assert run.error.__notes__ == [f"message: {topic}-0 at offset 5"]
    assert committed(source, group).get(TopicPartition(topic, 0), 0) <= 5


@pytest.mark.parametrize("wrong", [None, [("topic", b"value")], ProducerRecord("topic", b"value")])
def test_a_handler_must_return_producer_records(source: Broker, target: Broker, wrong: Any) -> None:
    topic = new_name()
    fill(source, topic, 1, partitions=1)
    clusters = source.bootstrap_servers, target.bootstrap_servers
    with running(*clusters, topic, group_id=new_name(), handler=lambda _: wrong) as run:
        run.join(60)
    assert isinstance(run.error, TypeError)
    assert str(run.error).startswith("handler must return ")
    assert run.error.__notes__ == [f"message: {topic}-0 at offset 0"]


def wait_for_metrics(run: Run) -> MirrorMetrics:
    """Return the metrics of the mirror as soon as it runs."""
    until(lambda: run.mirror.metrics() is not None, "metrics")
    found = run.mirror.metrics()
    assert found is not None
    return found


@pytest.mark.parametrize("abort", [True, False])
def test_a_record_that_cannot_be_sent_ends_the_mirror_or_is_dropped(
    source: Broker, target: Broker, abort: bool
) -> None:
    topic, group = new_name(), new_name()
    with Admin(source.bootstrap_servers) as admin:
        admin.create_topic(topic)
    with Admin(target.bootstrap_servers) as admin:
        admin.create_topic(topic, config={"max.message.bytes": "1000"})
    with Producer(source.bootstrap_servers) as producer:
        for number in range(30):
            producer.send(topic, b"x" * (5_000 if number == 20 else 10), key=b"%d" % number)
            producer.flush()
    options = {"group_id": group, "keep_partitions": True, "abort_on_send_failure": abort}
    writing = {"bootstrap_servers": target.bootstrap_servers, "linger_ms": 0, "batch_size": 0}
    with running(source.bootstrap_servers, writing, topic, **options) as run:
        if abort:
            run.join(60)
        else:
            until(lambda: stored(target.bootstrap_servers, topic) == 29, "the other records")
    sent = by_partition(source.bootstrap_servers, topic)[0]
    here = by_partition(target.bootstrap_servers, topic)[0]
    if abort:
        assert isinstance(run.error, DeliveryError)
        assert f"offset 20 of {topic}-0" in str(run.error)
        assert committed(source, group) == {TopicPartition(topic, 0): 20}
        assert here[:20] == sent[:20]
    else:
        assert here == sent[:20] + sent[21:]
        assert committed(source, group) == {TopicPartition(topic, 0): 30}
        metrics = run.mirror.metrics()
        assert metrics is not None
        assert (metrics.dropped_records, metrics.target.delivered.records, metrics.lag) == (1, 29, 0)


def test_records_before_one_that_cannot_be_sent_are_committed(
    source: Broker, target: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """They were in one batch with it, and no commit was due."""
    topic, group = new_name(), new_name()
    with Admin(source.bootstrap_servers) as admin:
        admin.create_topic(topic, 2)
    with Admin(target.bootstrap_servers) as admin:
        admin.create_topic(topic, 2, config={"max.message.bytes": "2000"})
    with Producer(source.bootstrap_servers, linger_ms=10_000) as producer:
        producer.send_many(topic, [b"small"] * 10, partition=0)
        producer.send_many(
            topic, [b"x" * (5_000 if number == 17 else 20) for number in range(30)], partition=1
        )
    clusters = source.bootstrap_servers, target.bootstrap_servers
    with running(*clusters, topic, group_id=group, keep_partitions=True, commit_interval=3_600) as run:
        run.join(60)
    assert isinstance(run.error, DeliveryError)
    assert f"offset 17 of {topic}-1" in str(run.error)
    assert committed(source, group)[TopicPartition(topic, 1)] == 17
    assert "the rebalance listener raised an exception" not in caplog.text


def test_a_mirror_waits_for_clusters_that_are_down_when_it_starts(tmp_path: Path) -> None:
    """Its lag is not known before it has its partitions."""
    topic, group = new_name(), new_name()
    with Broker(data_dir=tmp_path) as source, Broker() as target:
        fill(source, topic, 20, partitions=1)
        servers = source.bootstrap_servers, target.bootstrap_servers
    with running(*servers, topic, group_id=group) as run:
        metrics = wait_for_metrics(run)
        assert metrics.lag is None
        with Broker(int(servers[0].rsplit(":", 1)[1]), data_dir=tmp_path) as source:
            until(lambda: wait_for_metrics(run).sources[0].consumed.records, "records of the source")
            with Broker(int(servers[1].rsplit(":", 1)[1])) as target:
                until(lambda: run.error or committed(source, group) == ends(source, topic), "the last commit")
                until(lambda: wait_for_metrics(run).lag == 0, "a lag of 0")
                run.mirror.close()
    assert run.error is None


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ConfigurationError, match="group_id cannot be an option of a source"):
        Mirror({"group_id": "x"}, "localhost:1", "t", group_id="m")
    with pytest.raises(ConfigurationError, match="check_crcs=False cannot be an option of a source"):
        Mirror({"check_crcs": False}, "localhost:1", "t", group_id="m")
    with pytest.raises(ConfigurationError, match="sources is empty"):
        Mirror([], "localhost:1", "t", group_id="m")
    mirror = Mirror("localhost:1", "localhost:1", "t", group_id="m")
    mirror.close()
    with pytest.raises(ClosedError, match="create a new one"):
        mirror.run()


def test_a_topic_that_was_deleted_in_the_target_is_created_again(source: Broker, target: Broker) -> None:
    topic = new_name()
    fill(source, topic, 10, partitions=1)
    writing = {"bootstrap_servers": target.bootstrap_servers, "max_block_ms": 500, "metadata_max_age_ms": 200}
    with (
        Admin(target.bootstrap_servers) as admin,
        running(source.bootstrap_servers, writing, topic, group_id=new_name()),
    ):
        until(lambda: stored(target.bootstrap_servers, topic) == 10, "the first records")
        admin.delete_topic(topic)
        until(lambda: topic not in admin.topics(), "the end of the topic")

        def is_back() -> bool:
            send(source, topic, 1)
            return topic in admin.topics()

        until(is_back, "the new topic")


def test_a_batch_that_is_dropped_counts_with_all_its_records(
    source: Broker, target: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, group = new_name(), new_name()
    fill(source, topic, 20, partitions=1)

    def refuse(*_: object) -> None:
        raise ConfigurationError("refused")

    monkeypatch.setattr(MirrorProducer, "send_batch", refuse)
    options = {"group_id": group, "keep_partitions": True, "abort_on_send_failure": False}
    clusters = source.bootstrap_servers, target.bootstrap_servers
    with running(*clusters, topic, commit_interval=0.1, **options) as run:
        until(lambda: committed(source, group) == ends(source, topic), "the commit")
        metrics = run.mirror.metrics()
        assert metrics is not None
        assert metrics.dropped_records == 20
    assert stored(target.bootstrap_servers, topic) == 0


def test_records_that_are_not_confirmed_in_the_end_are_an_error(
    source: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target cluster goes down; then the mirror is closed. Both ``run`` and ``close`` raise the error."""
    monkeypatch.setattr(mirror_task, "_FLUSH_TIMEOUT", 0.2)
    topic, group = new_name(), new_name()
    fill(source, topic, 10, partitions=1)
    with Broker() as target:
        options = {"group_id": group, "keep_partitions": True, "commit_interval": 0.1}
        with running(source.bootstrap_servers, target.bootstrap_servers, topic, **options) as run:
            until(lambda: committed(source, group) == ends(source, topic), "the first commit")
            target.close()
            send(source, topic, 5)

            def are_sent() -> bool:
                metrics = run.mirror.metrics()
                return metrics is not None and metrics.target.waiting_records == 5

            until(are_sent, "the next records")
    assert isinstance(run.error, CommitError)
    assert f"the mirror has ended, but in 1 partition ({topic}-0)" in str(run.error)
    assert committed(source, group) == {TopicPartition(topic, 0): 10}


@pytest.mark.parametrize(
    ("interruption", "expected"),
    [(SystemExit(143), CommitError), (ZeroDivisionError(), ZeroDivisionError)],
    ids=["signal", "error"],
)
def test_a_failure_in_the_end_takes_the_place_of_a_signal(
    source: Broker,
    target: Broker,
    interruption: BaseException,
    expected: type[Exception],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Then a program has the exit code of a failure. An error of the program itself comes first."""

    def fail(_task: MirrorTask) -> None:
        raise CommitError("not committed")

    def interrupt(_metrics: object) -> None:
        raise interruption

    monkeypatch.setattr(MirrorTask, "_finish", fail)
    mirror = Mirror(source.bootstrap_servers, target.bootstrap_servers, new_name(), group_id=new_name())
    with pytest.raises(expected):
        mirror.run(interrupt, 0.5)


def test_close_says_that_the_mirror_has_not_ended_in_time(source: Broker, target: Broker) -> None:
    topic, reached, go_on = new_name(), threading.Event(), threading.Event()
    fill(source, topic, 1, partitions=1)

    def handler(_message: Message) -> list[ProducerRecord]:
        reached.set()
        go_on.wait(60)
        return []

    clusters = source.bootstrap_servers, target.bootstrap_servers
    with running(*clusters, topic, group_id=new_name(), handler=handler) as run:
        assert reached.wait(60)
        with pytest.raises(KafkaTimeoutError, match=r"not ended within 0\.1 s"):
            run.mirror.close(0.1)
        go_on.set()
