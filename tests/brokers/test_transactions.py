"""Transactions on each release that has them, read back by librdkafka and the release's console consumer. The
releases before them: the error."""

import pytest

from pyklient import Admin, GroupMetadata, Producer, TopicPartition
from pyklient.errors import FatalTransactionError, ProducerFencedError
from tests.brokers.release import Release
from tests.servers.fixtures import NewName
from tests.servers.isolation import values
from tests.servers.process import wait_until

_FIRST = (0, 11)


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
    assert values(release.bootstrap, topic) == [b"committed", b"aborted", b"committed too"]
    assert values(release.bootstrap, topic, "read_committed") == [b"committed", b"committed too"]
    written = [("1", "committed"), ("2", "aborted"), ("3", "committed too")]
    assert release.console_read(topic, 3) == written
    assert release.console_read(topic, 2, "read_committed") == [written[0], written[2]]


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

    def committed() -> int:
        with Admin(release.bootstrap) as admin:
            return admin.group_offsets(group)[TopicPartition(topic, 0)].offset

    wait_until(lambda: committed() == 999, 30, "the offsets of the last transaction")


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
    assert values(release.bootstrap, topic, "read_committed") == [b"new"]
