"""Transactions of a producer on real brokers, with both versions of the protocol."""

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow
import pytest

from pyklient import Admin, Producer
from pyklient.errors import (
    AbortableTransactionError,
    ConfigurationError,
    FatalTransactionError,
    KafkaTimeoutError,
    MessageTooLargeError,
    ProducerFencedError,
    TransactionAbortedError,
    TransactionStateError,
)
from pyklient.group_metadata import GroupMetadata
from pyklient.kernel import Delivery
from pyklient.topic_partition import TopicPartition
from tests.servers.fixtures import NewName, NewTopic
from tests.servers.isolation import committed_values, values
from tests.servers.process import wait_until

pytestmark = pytest.mark.brokers(needs=["transactions"])

MakeProducer = Callable[..., Producer]


@pytest.fixture
def make(bootstrap: str, new_name: NewName) -> Iterator[MakeProducer]:
    """Makes producers with transactions, which are closed after the test."""
    made: list[Producer] = []
    own = new_name()

    def make(transactional_id: str = own, **options: Any) -> Producer:
        made.append(Producer(bootstrap, transactional_id=transactional_id, **options))
        return made[-1]

    yield make
    for producer in made:
        producer.close(10)


def _column(value: bytes) -> pyarrow.RecordBatch:
    kind = pyarrow.binary()
    return pyarrow.RecordBatch.from_arrays(
        [pyarrow.array([value], kind)], schema=pyarrow.schema([("value", kind)])
    )


def send_and_commit(producer: Producer, topic: str, value: bytes) -> None:
    with producer.transaction():
        producer.send(topic, value)


def test_committed_records_are_visible_and_aborted_ones_are_not(
    bootstrap: str, new_topic: NewTopic, make: MakeProducer
) -> None:
    topic, producer = new_topic(), make()
    with producer.transaction():
        producer.send(topic, b"1")
        producer.send(topic, b"2")
    producer.begin_transaction()
    producer.send(topic, b"3").result(30)
    producer.abort_transaction()
    with producer.transaction():
        pass
    with pytest.raises(ZeroDivisionError), producer.transaction():
        assert producer.send(topic, b"4").result(30).offset / 0
    send_and_commit(producer, topic, b"5")
    assert values(bootstrap, topic) == [b"1", b"2", b"3", b"4", b"5"]
    assert committed_values(bootstrap, topic) == [b"1", b"2", b"5"]


def test_records_that_are_not_sent_when_a_transaction_is_aborted_fail(
    bootstrap: str, new_topic: NewTopic, make: MakeProducer
) -> None:
    topic, producer = new_topic(), make(linger_ms=60_000, delivery_timeout_ms=120_000)
    seen: list[Delivery] = []
    producer.begin_transaction()
    dropped = producer.send(topic, b"dropped", on_delivery=seen.append)
    unseen = producer.send(topic, b"dropped too")
    producer.abort_transaction()
    assert isinstance(dropped.exception(0), TransactionAbortedError)
    assert unseen.done()
    assert seen == [dropped]
    send_and_commit(producer, topic, b"sent")
    producer.flush(60)  # raises nothing: the program has given up the records itself
    assert values(bootstrap, topic) == [b"sent"]


def test_two_hundred_transactions_in_a_row_over_several_partitions(
    bootstrap: str, new_topic: NewTopic, make: MakeProducer
) -> None:
    topic, producer = new_topic(3), make()
    expected = []
    for number in range(200):
        producer.begin_transaction()
        for partition in range(1 + number % 3):
            producer.send(topic, b"%d %03d" % (partition, number), partition=partition)
        if number % 5:
            producer.commit_transaction()
            expected += [b"%d %03d" % (partition, number) for partition in range(1 + number % 3)]
        else:
            producer.abort_transaction()
    assert committed_values(bootstrap, topic) == sorted(expected)


def test_all_ways_to_send_and_callbacks_work_in_a_transaction(
    bootstrap: str, new_topic: NewTopic, make: MakeProducer
) -> None:
    topic, producer = new_topic(), make()
    offsets: list[int] = []

    def delivered(delivery: Delivery) -> None:
        offsets.append(delivery.result(0).offset)

    with producer.transaction():
        producer.send(topic, b"send", on_delivery=delivered)
        bulk = producer.send_many(topic, [b"many 1", b"many 2"])
        arrow = producer.send_arrow(topic, _column(b"arrow"))
        producer.flush(60)
        assert offsets == [0], "a delivery says that a record is written"
    assert (bulk.exception(0), arrow.exception(0)) == (None, None)
    assert committed_values(bootstrap, topic) == [b"send", b"many 1", b"many 2", b"arrow"]


def test_a_second_producer_with_the_same_id_fences_the_first(
    bootstrap: str, new_topic: NewTopic, make: MakeProducer
) -> None:
    topic, zombie = new_topic(), make()
    zombie.begin_transaction()
    zombie.send(topic, b"old").result(30)
    owner = make()
    owner.begin_transaction()
    owner.send(topic, b"new").result(30)
    late = zombie.send(topic, b"late")
    for call in (zombie.commit_transaction, zombie.abort_transaction, zombie.begin_transaction):
        with pytest.raises(ProducerFencedError, match="another producer with transactional_id"):
            call()
    assert late.exception(30) is not None
    with pytest.raises(ProducerFencedError):
        zombie.send(topic, b"later")
    owner.commit_transaction()
    assert committed_values(bootstrap, topic) == [b"new"]
    send_and_commit(owner, topic, b"again")


def test_a_zombie_does_not_disturb_the_transactions_of_the_new_owner(
    bootstrap: str, new_topic: NewTopic, make: MakeProducer
) -> None:
    """A request for a new epoch would abort them."""
    topic, owner = new_topic(), make()
    calls: list[Callable[[Producer], None]] = [Producer.abort_transaction, Producer.commit_transaction]
    for number, call in enumerate(calls):
        zombie, owner = owner, make()
        zombie.begin_transaction()
        zombie.send(topic, b"old").result(30)
        owner.begin_transaction()
        owner.send(topic, b"new %d" % number).result(30)
        with pytest.raises(ProducerFencedError):
            call(zombie)
        owner.commit_transaction()
    assert committed_values(bootstrap, topic) == [b"new 0", b"new 1"]


def test_a_transaction_that_is_open_for_too_long_is_aborted_by_the_brokers(
    bootstrap: str, new_topic: NewTopic, make: MakeProducer
) -> None:
    topic, producer = new_topic(), make(transaction_timeout_ms=3_000)
    producer.begin_transaction()
    producer.send(topic, b"late").result(30)
    # The brokers abort it in this time.
    wait_until(lambda: committed_values(bootstrap, topic) == [], 60, "the end of the transaction")
    version = producer._manager()._transaction.version
    with pytest.raises(
        AbortableTransactionError if version > 1 else ProducerFencedError,
        match=r"the brokers have aborted the transaction.*transaction_timeout_ms=3000",
    ):
        producer.commit_transaction()
    if version > 1:
        producer.abort_transaction()
    else:
        producer = make()
    send_and_commit(producer, topic, b"in time")
    assert committed_values(bootstrap, topic) == [b"in time"]


def test_a_record_that_fails_makes_the_transaction_fail_and_the_next_one_works(
    bootstrap: str, new_topic: NewTopic, make: MakeProducer
) -> None:
    topic, small, producer = new_topic(), new_topic(**{"max.message.bytes": 1_000}), make()
    producer.begin_transaction()
    producer.send(topic, b"fine")
    with pytest.raises(MessageTooLargeError):
        producer.send(small, b"x" * 5_000).result(30)
    with pytest.raises(AbortableTransactionError, match=r"MESSAGE_TOO_LARGE.*call abort_transaction"):
        producer.send(topic, b"more")
    with pytest.raises(AbortableTransactionError):
        producer.commit_transaction()
    producer.abort_transaction()
    for number in range(2):
        with producer.transaction():
            producer.send(topic, b"%d" % number)
            producer.send(small, b"%d" % number)
    assert committed_values(bootstrap, topic) == committed_values(bootstrap, small) == [b"0", b"1"]


def test_a_topic_that_is_deleted_fails_only_the_transactions_that_still_need_it(
    bootstrap: str, new_topic: NewTopic, new_name: NewName, make: MakeProducer
) -> None:
    topic, gone, producer = new_topic(), new_topic(), make()
    with producer.transaction():
        producer.send(topic, b"before")
        producer.send(gone, b"deleted with its topic").result(30)
        with Admin(bootstrap) as admin:
            admin.delete_topic(gone)
    producer.begin_transaction()
    producer.send(topic, b"never")
    offsets = {TopicPartition(gone, 0): 1}
    with pytest.raises(AbortableTransactionError, match=rf"offset of {gone}-0 .*UNKNOWN_TOPIC_OR_PARTITION"):
        producer.send_offsets_to_transaction(offsets, GroupMetadata(new_name()))
    producer.abort_transaction()
    send_and_commit(producer, topic, b"between")
    producer.begin_transaction()
    producer.send(topic, b"never")
    late = producer.send(gone, b"never")
    with pytest.raises(KafkaTimeoutError, match=rf"the last failure: .*{gone}.*UNKNOWN_TOPIC_OR_PARTITION"):
        producer.commit_transaction(timeout=2)
    producer.abort_transaction()
    assert isinstance(late.exception(0), TransactionAbortedError)
    send_and_commit(producer, topic, b"after")
    assert committed_values(bootstrap, topic) == [b"before", b"between", b"after"]


def test_offsets_are_committed_with_the_transaction(
    bootstrap: str, new_topic: NewTopic, new_name: NewName, make: MakeProducer
) -> None:
    topic, group, producer = new_topic(2), new_name(), make()
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)

    def committed() -> dict[TopicPartition, int]:
        with Admin(bootstrap) as admin:
            return {where: each.offset for where, each in admin.group_offsets(group).items()}

    with producer.transaction():
        producer.send_offsets_to_transaction({first: 3}, GroupMetadata(group))
        producer.send_offsets_to_transaction({second: 5}, GroupMetadata(group))
    wait_until(lambda: committed() == {first: 3, second: 5}, 60, "the offsets of the transaction")
    producer.begin_transaction()
    producer.send_offsets_to_transaction({first: 7}, GroupMetadata(group))
    producer.abort_transaction()
    with producer.transaction():
        producer.send(topic, b"1")
        producer.send_offsets_to_transaction({second: 6}, GroupMetadata(group))
    wait_until(lambda: committed() == {first: 3, second: 6}, 60, "the offsets of the transaction")


def test_offsets_of_a_member_that_is_not_in_the_group_are_refused(
    bootstrap: str, new_topic: NewTopic, new_name: NewName, make: MakeProducer
) -> None:
    topic, group, producer = new_topic(), new_name(), make()
    producer.begin_transaction()
    producer.send(topic, b"never")
    offsets = {TopicPartition(topic, 0): 1}
    with pytest.raises(AbortableTransactionError, match=r"UNKNOWN_MEMBER_ID|ILLEGAL_GENERATION"):
        producer.send_offsets_to_transaction(offsets, GroupMetadata(group, 4, "nobody"))
    with pytest.raises(AbortableTransactionError):
        producer.commit_transaction()
    producer.abort_transaction()
    send_and_commit(producer, topic, b"1")
    assert committed_values(bootstrap, topic) == [b"1"]


def test_calls_at_the_wrong_time_change_nothing(
    bootstrap: str, new_topic: NewTopic, make: MakeProducer
) -> None:
    topic, producer = new_topic(), make()
    with pytest.raises(TransactionStateError, match="call begin_transaction first"):
        producer.send(topic, b"x")
    for call in (producer.commit_transaction, producer.abort_transaction):
        with pytest.raises(TransactionStateError, match="no transaction is open"):
            call()
    producer.init_transactions()
    producer.init_transactions()
    producer.begin_transaction()
    with pytest.raises(TransactionStateError, match="begin_transaction is not possible now"):
        producer.begin_transaction()
    producer.send(topic, b"1")
    producer.commit_transaction()
    for send in (
        lambda: producer.send(topic, b"x"),
        lambda: producer.send_many(topic, [b"x"]),
        lambda: producer.send_arrow(topic, _column(b"x")),
    ):
        with pytest.raises(TransactionStateError, match="call begin_transaction first"):
            send()
    with pytest.raises(TransactionStateError):
        producer.send_offsets_to_transaction({TopicPartition(topic, 0): 1}, GroupMetadata("g"))
    assert values(bootstrap, topic) == [b"1"]
    with Producer(bootstrap) as plain, pytest.raises(ConfigurationError, match="transactional_id"):
        plain.begin_transaction()


def test_a_time_out_that_the_brokers_do_not_allow_is_fatal(make: MakeProducer) -> None:
    producer = make(transaction_timeout_ms=2**31 - 1)
    for call in (producer.init_transactions, producer.begin_transaction):
        with pytest.raises(FatalTransactionError, match="INVALID_TRANSACTION_TIMEOUT"):
            call()


def test_closing_a_producer_aborts_its_open_transaction(
    bootstrap: str, new_topic: NewTopic, make: MakeProducer, caplog: pytest.LogCaptureFixture
) -> None:
    topic, producer = new_topic(), make()
    producer.begin_transaction()
    producer.send(topic, b"1").result(30)
    producer.close(30)
    assert "its transaction is open, and is therefore aborted" in caplog.text
    assert values(bootstrap, topic) == [b"1"]  # returns when the transaction has ended
    assert committed_values(bootstrap, topic) == []
