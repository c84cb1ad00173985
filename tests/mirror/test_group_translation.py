"""The translation of committed offsets: syncs are stored and read back, and groups move in the target."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from pyklient import (
    Admin,
    ConsumerConnector,
    KafkaTimeoutError,
    Mirror,
    OffsetAndMetadata,
    Producer,
    TopicPartition,
    Whitelist,
)
from pyklient.broker import Broker
from pyklient.errors import BrokerError, ConfigurationError, ConsumerTimeout
from pyklient.mirror import partition_syncs
from pyklient.mirror.group_translation import GroupTranslation, TranslatedOffset, translate_offsets
from pyklient.mirror.offset_syncs import OffsetSync
from pyklient.mirror.partition_syncs import PartitionSyncs
from pyklient.mirror.sent_records import ConfirmedRecords
from pyklient.mirror.sync_topic import SYNC_TOPIC, read_syncs
from pyklient.mirror.target_admin import TargetAdmin
from tests.mirror.running import running, until
from tests.servers.fixtures import NewName


def committed(broker: Broker, group: str, positions: dict[TopicPartition, int]) -> None:
    """Commit *positions* for *group*."""
    with Admin(broker.bootstrap_servers) as admin:
        offsets = {each: OffsetAndMetadata(offset) for each, offset in positions.items()}
        admin.reset_offsets(group, offsets, topics=list(offsets), storage="kafka", execute=True)


def stored(broker: Broker, group: str) -> dict[TopicPartition, int]:
    """Return the committed offsets of *group*."""
    with Admin(broker.bootstrap_servers) as admin:
        return {each: position.offset for each, position in admin.group_offsets(group).items()}


def copied(
    source: Broker, target: Broker, mirror_group: str, where: TopicPartition, runs: list[tuple[int, int, int]]
) -> PartitionSyncs:
    """Store syncs as a mirror does that has copied *runs* of the partition *where*. Make both logs long
    enough for all offsets."""
    for broker in (source, target):
        with Admin(broker.bootstrap_servers) as admin:
            if where.topic not in admin.topics():
                admin.create_topic(where.topic, where.partition + 1)
        with Producer(broker.bootstrap_servers) as producer:
            producer.send_many(where.topic, [b"v"] * 200, partition=where.partition)
    with syncing(source, target, mirror_group, where) as syncs:
        syncs.note(ConfirmedRecords(where, at, where, there, count) for at, there, count in runs)
        syncs.store([where])
        syncs.flush(60)
    return syncs


@contextmanager
def syncing(
    source: Broker,
    target: Broker,
    mirror_group: str,
    *partitions: TopicPartition,
    producer: Producer | None = None,
) -> Iterator[PartitionSyncs]:
    """Create the topics of *partitions*, and begin to sync them."""
    for broker in (source, target):
        with Admin(broker.bootstrap_servers) as admin:
            for where in partitions:
                if where.topic not in admin.topics():
                    admin.create_topic(where.topic, where.partition + 1)
    options = {"bootstrap_servers": target.bootstrap_servers}
    with (
        Admin(source.bootstrap_servers) as there,
        TargetAdmin(target.bootstrap_servers) as admin,
        Producer(target.bootstrap_servers) as own,
    ):
        syncs = PartitionSyncs(options, mirror_group, admin, producer or own, there)
        syncs.begin(partitions, assigned=True)
        yield syncs


def test_a_group_moves_only_with_execute_and_never_back(
    source: Broker, target: Broker, new_name: NewName
) -> None:
    group, mirror_group, where = new_name(), new_name(), TopicPartition(new_name(), 1)
    copied(source, target, mirror_group, where, [(0, 20, 50), (60, 70, 10)])
    committed(source, group, {where: 64})
    # A cluster may have more options than a translation needs.
    clusters = source.bootstrap_servers, {"bootstrap_servers": target.bootstrap_servers, "group_id": group}
    shown = translate_offsets(*clusters, group, mirror_group)
    assert shown == {where: TranslatedOffset(source=64, translated=74, committed=None)}
    assert stored(target, group) == {}
    translate_offsets(*clusters, group, mirror_group, execute=True)
    assert stored(target, group) == {where: 74}
    (repeated,) = translate_offsets(*clusters, group, mirror_group, execute=True).values()
    assert repeated == TranslatedOffset(source=64, translated=74, committed=74)
    assert not repeated.ahead
    assert not repeated.moves
    committed(source, group, {where: 55})
    (again,) = translate_offsets(*clusters, group, mirror_group, execute=True).values()
    assert again == TranslatedOffset(source=55, translated=70, committed=74)
    assert again.ahead
    assert stored(target, group) == {where: 74}


def test_another_member_continues_with_the_stored_syncs(
    source: Broker, target: Broker, new_name: NewName
) -> None:
    mirror_group, where = new_name(), TopicPartition(new_name(), 0)
    copied(source, target, mirror_group, where, [(0, 0, 10)])
    later = copied(source, target, mirror_group, where, [(10, 10, 5), (30, 15, 5)])
    expected = (OffsetSync(0, 0, 15), OffsetSync(30, 15, 5))
    assert tuple(each.sync for each in later.latest[where]) == expected
    found = read_syncs({"bootstrap_servers": target.bootstrap_servers}, mirror_group)
    assert tuple(sorted(each.sync for each in found[where].values())) == expected


def test_a_mirror_moves_groups_which_then_continue_in_the_target(
    source: Broker, target: Broker, new_name: NewName
) -> None:
    """The target has older records, so that offsets differ. The group gets only what it has not read."""
    topic, group, other, mirror_group = (new_name() for _ in range(4))
    for broker in (source, target):
        with Admin(broker.bootstrap_servers) as admin:
            admin.create_topic(topic, 2)
    with Producer(target.bootstrap_servers) as producer:
        producer.send_many(topic, [b"old"] * 7, partition=1)
    with Producer(source.bootstrap_servers) as producer:
        for number in range(400):
            producer.send(topic, b"%d" % number, partition=number % 2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    committed(source, group, {first: 120, second: 130})
    committed(source, other, {first: 1})
    with running(
        source.bootstrap_servers,
        target.bootstrap_servers,
        topic,
        group_id=mirror_group,
        keep_partitions=True,
        commit_interval=0.1,
        groups=group,
        group_interval=0.1,
    ) as run:
        until(lambda: stored(target, group) == {first: 120, second: 137}, "the offsets of the group")
        committed(source, group, {first: 199, second: 200})
        until(lambda: stored(target, group) == {first: 199, second: 207}, "the next offsets of the group")
        until(lambda: (found := run.mirror.metrics()) and found.target.delivered.records > 400, "syncs")
        metrics = run.mirror.metrics()
        assert metrics is not None
        assert metrics.copied.records == 400
    assert stored(target, other) == {}
    with ConsumerConnector(
        target.bootstrap_servers, group_id=group, auto_offset_reset="none", consumer_timeout_ms=10_000
    ) as member:
        messages = iter(member.stream(topic))
        assert next(messages).value == b"398"
        with pytest.raises(ConsumerTimeout):
            next(messages)


def test_a_mirror_of_groups_needs_partitions_that_have_one_counterpart(source: Broker) -> None:
    servers = source.bootstrap_servers
    with pytest.raises(ConfigurationError, match="keep_partitions=True and no handler"):
        Mirror(servers, servers, "t", group_id="m", groups="g")
    with pytest.raises(ConfigurationError, match="keep_partitions=True and no handler"):
        Mirror(servers, servers, "t", group_id="m", groups="g", keep_partitions=True, handler=lambda _: [])
    with pytest.raises(ConfigurationError, match="exactly one source"):
        Mirror([servers, servers], servers, "t", group_id="m", groups="g", keep_partitions=True)
    target = {"bootstrap_servers": servers, "acks": 0}
    with pytest.raises(ConfigurationError, match="remove acks=0"):
        Mirror(servers, target, "t", group_id="m", groups="g", keep_partitions=True)


def test_a_group_with_members_is_refused(source: Broker, target: Broker, new_name: NewName) -> None:
    group, mirror_group, where = new_name(), new_name(), TopicPartition(new_name(), 0)
    copied(source, target, mirror_group, where, [(0, 0, 50)])
    committed(source, group, {where: 7})
    with ConsumerConnector(target.bootstrap_servers, group_id=group, auto_offset_reset="earliest") as member:
        next(iter(member.stream(where.topic)))
        with pytest.raises(BrokerError, match="NON_EMPTY_GROUP"):
            translate_offsets(
                source.bootstrap_servers, target.bootstrap_servers, group, mirror_group, execute=True
            )


def test_an_error_says_why_nothing_is_translated(source: Broker, target: Broker, new_name: NewName) -> None:
    group, mirror_group, where, other = new_name(), new_name(), *(TopicPartition(new_name(), 0) for _ in "ab")
    clusters = source.bootstrap_servers, target.bootstrap_servers
    copied(source, target, mirror_group, where, [(0, 0, 50)])
    copied(source, target, new_name(), other, [(0, 0, 50)])
    both = f"from the cluster {clusters[0]} to {clusters[1]}"
    with pytest.raises(ConfigurationError, match=f"{both}: the group has committed no offsets in the source"):
        translate_offsets(*clusters, group, mirror_group)
    committed(source, group, {other: 7})
    with pytest.raises(ConfigurationError, match=f"group {mirror_group} has copied none of the partitions"):
        translate_offsets(*clusters, group, mirror_group)
    with pytest.raises(ConfigurationError, match=f"{both}: no mirror with the group absent has stored"):
        translate_offsets(*clusters, group, "absent")
    with Broker() as empty, pytest.raises(ConfigurationError, match="no mirror with the group absent"):
        translate_offsets(source.bootstrap_servers, empty.bootstrap_servers, group, "absent")


def test_records_that_are_no_syncs_are_ignored(
    source: Broker, target: Broker, new_name: NewName, caplog: pytest.LogCaptureFixture
) -> None:
    mirror_group, where = new_name(), TopicPartition(new_name(), 0)
    copied(source, target, mirror_group, where, [(0, 0, 10)])
    with Producer(target.bootstrap_servers) as producer:
        for key, value in ((b"no json", b"[1]"), (b'["%b"]' % mirror_group.encode(), b"[1]"), (None, None)):
            producer.send(SYNC_TOPIC, value, key=key)
    found = read_syncs({"bootstrap_servers": target.bootstrap_servers}, mirror_group)
    assert list(found) == [where]
    assert caplog.text.count("is not an offset sync") == 3


def test_partitions_that_the_target_lacks_or_has_fewer_records_of_are_left_out(
    source: Broker,
    target: Broker,
    new_name: NewName,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Brokers before 2.8 have no topic ids, which would tell that a topic was created again."""
    group, mirror_group = new_name(), new_name()
    monkeypatch.setattr(TargetAdmin, "topic_ids", lambda admin, *_, **__: dict.fromkeys(admin.topics()))
    gone, short, fine = (TopicPartition(new_name(), 0) for _ in range(3))
    for where in (gone, short, fine):
        copied(source, target, mirror_group, where, [(0, 0, 150)])
    committed(source, group, {gone: 10, short: 100, fine: 30})
    with Admin(target.bootstrap_servers) as admin:
        for topic in (gone.topic, short.topic):
            admin.delete_topic(topic)
        admin.create_topic(short.topic)
    clusters = source.bootstrap_servers, target.bootstrap_servers
    translate_offsets(*clusters, group, mirror_group, execute=True)
    assert stored(target, group) == {fine: 30}
    assert f"in {gone} is not translated: its end in the target cluster is not known" in caplog.text
    assert f"in {short} is not translated: it ends before offset 150 in the target" in caplog.text
    other = new_name()
    committed(source, other, {short: 100})
    with pytest.raises(ConfigurationError, match=f": {short}: it ends before offset 150"):
        translate_offsets(*clusters, other, mirror_group)


def test_a_running_mirror_tells_once_why_an_offset_is_not_translated(
    source: Broker, target: Broker, new_name: NewName, caplog: pytest.LogCaptureFixture
) -> None:
    group, mirror_group, where = new_name(), new_name(), TopicPartition(new_name(), 0)
    syncs = copied(source, target, mirror_group, where, [(0, 0, 150)])
    committed(source, group, {where: 100})
    with TargetAdmin(target.bootstrap_servers) as admin, Admin(source.bootstrap_servers) as there:
        admin.delete_topic(where.topic)
        translation = GroupTranslation(there, admin, Whitelist(group), mirror_group, threading.Event())
        for _ in range(3):
            translation.translate(syncs.latest)
    assert caplog.text.count(f"in {where} is not translated: its end in the target cluster is not known") == 1


def test_the_syncs_of_a_deleted_topic_are_not_used(
    source: Broker, target: Broker, new_name: NewName, caplog: pytest.LogCaptureFixture
) -> None:
    """The topic was created again with more records than the deleted one had."""
    group, mirror_group, where = new_name(), new_name(), TopicPartition(new_name(), 0)
    syncs = copied(source, target, mirror_group, where, [(0, 0, 150)])
    committed(source, group, {where: 100})
    with TargetAdmin(target.bootstrap_servers) as admin, Admin(source.bootstrap_servers) as there:
        admin.delete_topic(where.topic)
        with Producer(target.bootstrap_servers) as producer:
            admin.create_topic(where.topic)
            producer.send_many(where.topic, [b"v"] * 500)
        GroupTranslation(there, admin, Whitelist(group), mirror_group, threading.Event()).translate(
            syncs.latest
        )
        assert stored(target, group) == {where: 0}
    (found,) = translate_offsets(
        source.bootstrap_servers, target.bootstrap_servers, group, mirror_group
    ).values()
    assert found.translated == 0
    later = copied(source, target, mirror_group, where, [])
    assert later.latest[where] == ()


def test_a_topic_that_is_deleted_while_the_mirror_runs_begins_anew(
    source: Broker, target: Broker, new_name: NewName, caplog: pytest.LogCaptureFixture
) -> None:
    where = TopicPartition(new_name(), 0)
    with syncing(source, target, new_name(), where) as syncs, Admin(target.bootstrap_servers) as admin:
        syncs.note([ConfirmedRecords(where, 0, where, 0, 150)])
        syncs.store([where])
        assert [each.sync for each in syncs.latest[where]] == [OffsetSync(0, 0, 150)]
        admin.delete_topic(where.topic)
        admin.create_topic(where.topic)
        syncs.note([ConfirmedRecords(where, 150, where, 300, 10)])
        syncs.store([where])
        assert syncs.latest[where] == ()
    assert f"topic {where.topic} was deleted and created again" in caplog.text


def test_syncs_are_stored_again_in_a_new_topic(source: Broker, new_name: NewName) -> None:
    mirror_group, where, other = new_name(), TopicPartition(new_name(), 0), TopicPartition(new_name(), 0)
    with Broker() as target, syncing(source, target, mirror_group, where, other) as syncs:
        syncs.note([ConfirmedRecords(each, 0, each, 0, 10) for each in (where, other)])
        syncs.store([where, other])
        syncs.flush(60)
        with Admin(target.bootstrap_servers) as admin:
            admin.delete_topic(SYNC_TOPIC)
            syncs.note([ConfirmedRecords(where, 20, where, 10, 10)])
            syncs.store([where])
            syncs.flush(60)
            assert admin.describe_topic(SYNC_TOPIC).config == {"cleanup.policy": "compact"}
        found = read_syncs({"bootstrap_servers": target.bootstrap_servers}, mirror_group)
    assert {source: len(slots) for source, slots in found.items()} == {where: 2, other: 1}


class FailingProducer(Producer):
    """A producer to whose first calls of ``send`` the target cluster does not answer."""

    def __init__(self, bootstrap: str, failures: set[int]) -> None:
        super().__init__(bootstrap)
        self.failures = failures
        self.calls = 0

    def send(self, *args: Any, **options: Any) -> Any:
        self.calls += 1
        if self.calls in self.failures:
            raise KafkaTimeoutError("the target cluster is down")
        return super().send(*args, **options)


def test_syncs_that_could_not_be_stored_are_stored_without_another_commit(
    source: Broker,
    target: Broker,
    new_name: NewName,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One failed attempt is enough: each attempt may wait for the target cluster."""
    monkeypatch.setattr(partition_syncs, "_FIRST_PAUSE", 0.05)
    mirror_group, where, other = new_name(), TopicPartition(new_name(), 0), TopicPartition(new_name(), 0)
    with (
        FailingProducer(target.bootstrap_servers, {2, 3}) as producer,
        syncing(source, target, mirror_group, where, other, producer=producer) as syncs,
    ):
        syncs.note(
            ConfirmedRecords(each, number * 20, each, number * 10, 10)
            for each in (where, other)
            for number in range(3)
        )
        syncs.store([where, other])
        assert producer.calls == 2

        def are_sent() -> bool:
            syncs.retry()
            return producer.calls == 8

        until(are_sent, "the other syncs")
        syncs.flush(60)
        assert producer.calls == 8
    found = read_syncs({"bootstrap_servers": target.bootstrap_servers}, mirror_group)
    assert {source: len(slots) for source, slots in found.items()} == {where: 3, other: 3}
    assert caplog.text.count("storing offset syncs in topic") == 2  # the outage began, and ended


def test_a_mirror_that_ends_tries_again_to_store_its_syncs(
    source: Broker, target: Broker, new_name: NewName, caplog: pytest.LogCaptureFixture
) -> None:
    mirror_group, where = new_name(), TopicPartition(new_name(), 0)
    with (
        FailingProducer(target.bootstrap_servers, {1}) as producer,
        syncing(source, target, mirror_group, where, producer=producer) as syncs,
    ):
        syncs.note([ConfirmedRecords(where, 0, where, 0, 10)])
        syncs.store([where])
        syncs.flush(60)
    found = read_syncs({"bootstrap_servers": target.bootstrap_servers}, mirror_group)
    assert [each.sync for each in found[where].values()] == [OffsetSync(0, 0, 10)]


def test_a_mirror_that_ends_says_which_syncs_are_not_stored(
    source: Broker, target: Broker, new_name: NewName, caplog: pytest.LogCaptureFixture
) -> None:
    where = TopicPartition(new_name(), 0)
    with (
        FailingProducer(target.bootstrap_servers, set(range(1_000))) as producer,
        syncing(source, target, new_name(), where, producer=producer) as syncs,
    ):
        syncs.note([ConfirmedRecords(where, 0, where, 0, 10)])
        syncs.store([where])
        syncs.flush(0.1)
    assert "the last offset syncs of 1 partition were not stored" in caplog.text


def test_stored_syncs_are_read_later_if_the_target_is_down_at_the_start(
    source: Broker, target: Broker, new_name: NewName
) -> None:
    mirror_group, where = new_name(), TopicPartition(new_name(), 0)
    copied(source, target, mirror_group, where, [(0, 0, 10)])
    with (
        Admin(source.bootstrap_servers) as there,
        TargetAdmin(target.bootstrap_servers) as admin,
        Producer(target.bootstrap_servers) as producer,
    ):
        options: dict[str, Any] = {"bootstrap_servers": "127.0.0.1:1", "default_api_timeout_ms": 200}
        syncs = PartitionSyncs(options, mirror_group, admin, producer, there)
        syncs.begin([where], assigned=True)
        assert where not in syncs.latest
        options["bootstrap_servers"] = target.bootstrap_servers
        syncs.note([ConfirmedRecords(where, 10, where, 10, 5)])
        syncs.store([where])
    assert [each.sync for each in syncs.latest[where]] == [OffsetSync(0, 0, 15)]


def test_a_stopping_mirror_translates_no_other_group(
    source: Broker, target: Broker, new_name: NewName
) -> None:
    names, mirror_group, where = (
        sorted(new_name() for _ in range(3)),
        new_name(),
        TopicPartition(new_name(), 0),
    )
    syncs = copied(source, target, mirror_group, where, [(0, 0, 50)])
    for name in names:
        committed(source, name, {where: 7})
    stopping = threading.Event()

    class StoppingAdmin(TargetAdmin):
        def reset_offsets(self, *args: Any, **options: Any) -> Any:
            stopping.set()
            return super().reset_offsets(*args, **options)

    with Admin(source.bootstrap_servers) as here, StoppingAdmin(target.bootstrap_servers) as there:
        GroupTranslation(here, there, Whitelist("|".join(names)), mirror_group, stopping).translate(
            syncs.latest
        )
    assert [stored(target, name) for name in names] == [{where: 7}, {}, {}]


def test_the_topic_of_the_syncs_is_not_mirrored(source: Broker, target: Broker, new_name: NewName) -> None:
    topic = new_name()
    copied(target, source, new_name(), TopicPartition(topic, 0), [(0, 0, 10)])
    with (
        running(
            source.bootstrap_servers,
            target.bootstrap_servers,
            f"{topic}|{SYNC_TOPIC}",
            group_id=(group := new_name()),
        ),
        Admin(target.bootstrap_servers) as admin,
    ):
        until(lambda: sum(admin.end_offsets(admin.partitions([topic])).values()) == 400, "all records")
    assert {each.topic for each in stored(source, group)} == {topic}


def test_an_unexpected_exception_of_the_translation_ends_the_mirror(
    source: Broker, target: Broker, new_name: NewName, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(GroupTranslation, "translate", fail)
    options = {"keep_partitions": True, "groups": "g", "group_interval": 0.1}
    clusters = source.bootstrap_servers, target.bootstrap_servers
    with running(*clusters, new_name(), group_id=new_name(), **options) as run:
        run.join(60)
    assert isinstance(run.error, ZeroDivisionError)
