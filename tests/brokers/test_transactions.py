"""Transactions on each release that has them, read back by pyklient, librdkafka and the release's console
consumer. The releases before them: the error."""

from collections.abc import Sequence

import pytest

from pyklient import Admin, ConsumerConnector, GroupMetadata, Producer, TopicPartition, read
from pyklient.argument_checks import IsolationLevel
from pyklient.errors import AbortableTransactionError, FatalTransactionError, ProducerFencedError
from tests.brokers.release import Release
from tests.servers.fixtures import NewName
from tests.servers.isolation import values
from tests.servers.process import wait_until

_FIRST = (0, 11)
_DESCRIBES = (3, 0)
"""The first release that describes transactions."""


def check_readers(release: Release, topic: str, written: Sequence[bytes], committed: Sequence[bytes]) -> None:
    """Check that all clients read *written*, and *committed* with ``read_committed``."""
    expectations: list[tuple[IsolationLevel, Sequence[bytes]]] = [
        ("read_uncommitted", written),
        ("read_committed", committed),
    ]
    for level, expected in expectations:
        assert values(release.bootstrap, topic, level) == expected
        with read(release.bootstrap, topic, isolation_level=level) as messages:
            assert [each.value for each in messages] == expected
        printed = release.console_read(topic, len(expected), level)
        assert [value.encode() for _, value in printed] == expected


def committed_offsets(release: Release, group: str) -> dict[int, int]:
    """Return the committed offsets of *group* by partition."""
    with Admin(release.bootstrap) as admin:
        return {where.partition: each.offset for where, each in admin.group_offsets(group).items()}


def test_transactions_are_what_other_clients_read_in_both_isolation_levels(
    release: Release, new_name: NewName
) -> None:
    topic = release.new_topic(new_name())
    with Producer(release.bootstrap, transactional_id=new_name()) as producer:
        if release.version < _FIRST:
            with pytest.raises(FatalTransactionError, match=r"needs Kafka 0\.11 or later"):
                producer.begin_transaction()
            return
        with producer.transaction():
            producer.send(topic, b"committed", key=b"1")
        producer.begin_transaction()
        producer.send(topic, b"aborted", key=b"2").result(30)
        producer.abort_transaction()
        with producer.transaction():
            pass
        with producer.transaction():
            producer.send(topic, b"committed too", key=b"3")
    written = [b"committed", b"aborted", b"committed too"]
    check_readers(release, topic, written, [written[0], written[2]])


def test_a_thousand_transactions_in_a_row(release: Release, new_name: NewName) -> None:
    topic, group = release.new_topic(new_name()), new_name()
    if release.version < _FIRST:
        return
    expected = []
    with Producer(release.bootstrap, transactional_id=new_name()) as producer:
        for number in range(1_000):
            producer.begin_transaction()
            producer.send(topic, b"%d" % number)
            if number % 10:
                offsets = {TopicPartition(topic, 0): number}
                producer.send_offsets_to_transaction(offsets, GroupMetadata(group))
                producer.commit_transaction()
                expected.append(b"%d" % number)
            else:
                producer.abort_transaction()
    assert values(release.bootstrap, topic, "read_committed") == expected

    wait_until(
        lambda: committed_offsets(release, group) == {0: 999}, 60, "the offsets of the last transaction"
    )


def test_a_second_producer_fences_the_first(release: Release, new_name: NewName) -> None:
    topic, name = release.new_topic(new_name()), new_name()
    if release.version < _FIRST:
        return
    with (
        Producer(release.bootstrap, transactional_id=name) as zombie,
        Producer(release.bootstrap, transactional_id=name) as owner,
    ):
        zombie.begin_transaction()
        zombie.send(topic, b"old").result(30)
        owner.begin_transaction()
        owner.send(topic, b"new").result(30)
        with pytest.raises(ProducerFencedError):
            zombie.commit_transaction()
        owner.commit_transaction()
    check_readers(release, topic, [b"old", b"new"], [b"new"])


def test_a_successor_that_initializes_before_it_looks_up_the_offset_begins_where_it_should(
    release: Release, new_name: NewName
) -> None:
    """Also on brokers before Kafka 2.5, which do not tell that offsets are in an open transaction."""
    source, group, name = release.new_topic(new_name()), new_name(), new_name()
    if release.version < _FIRST:
        return
    with Producer(release.bootstrap) as filler:
        filler.send_many(source, [b"0", b"1", b"2"])
    where, member = TopicPartition(source, 0), GroupMetadata(group)
    with (
        Producer(release.bootstrap, transactional_id=name) as zombie,
        Producer(release.bootstrap, transactional_id=name) as owner,
        ConsumerConnector(release.bootstrap, group_id=group, enable_auto_commit=False) as connector,
    ):
        with zombie.transaction():
            zombie.send_offsets_to_transaction({where: 1}, member)
        wait_until(lambda: committed_offsets(release, group) == {0: 1}, 60, "the offset of the transaction")
        zombie.begin_transaction()
        zombie.send_offsets_to_transaction({where: 2}, member)
        owner.init_transactions()
        stream = connector.assign({source: [0]})
        with pytest.raises(ProducerFencedError):
            zombie.commit_transaction()
        assert next(iter(stream)).value == b"1"
        with owner.transaction():
            owner.send_offsets_to_transaction({where: 2}, member)
        wait_until(lambda: committed_offsets(release, group) == {0: 2}, 60, "the offset of the successor")


def test_a_transaction_past_its_time_out_is_aborted_by_the_brokers(
    release: Release, new_name: NewName
) -> None:
    topic, name = release.new_topic(new_name()), new_name()
    if release.version < _FIRST:
        return
    with Producer(release.bootstrap, transactional_id=name, transaction_timeout_ms=3_000) as producer:
        producer.begin_transaction()
        producer.send(topic, b"late").result(30)
        check_readers(release, topic, [b"late"], [])  # returns when the brokers have aborted the transaction
        kind = AbortableTransactionError if release.version >= _DESCRIBES else ProducerFencedError
        with pytest.raises(kind, match=r"the brokers have aborted the transaction.*timeout_ms=3000"):
            producer.commit_transaction()
        if release.version >= _DESCRIBES:
            producer.abort_transaction()
            with producer.transaction():
                producer.send(topic, b"the same producer")
    with Producer(release.bootstrap, transactional_id=name) as producer, producer.transaction():
        producer.send(topic, b"the next producer")
    later = [b"the next producer"]
    if release.version >= _DESCRIBES:
        later.insert(0, b"the same producer")
    check_readers(release, topic, [b"late", *later], later)
