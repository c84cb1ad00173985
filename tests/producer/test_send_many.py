"""Many records in one call."""

from collections.abc import Iterator

import pytest

from pyklient.error_codes import ErrorCode
from pyklient.errors import BrokerError, ConfigurationError, DeliveryError, KafkaTimeoutError
from pyklient.kernel import read_records
from pyklient.topic_partition import TopicPartition
from tests.net.scripted import SILENCE
from tests.producer.script import TOPIC, LoseAnswer, ProduceBroker, Refuse, producing

pytestmark = pytest.mark.both_kernels


def test_values_come_back_as_ranges_of_offsets(broker: ProduceBroker) -> None:
    broker.partitions = 3
    with producing(broker, batch_size=2_000) as producer:
        bulk = producer.send_many(TOPIC, (b"%d" % number for number in range(10_000)))
        ranges = bulk.result(20)
        assert bulk.count == 10_000
        assert bulk.done()
        assert "10,000 records, done" in repr(bulk)
    assert {at.topic for at in ranges} == {TOPIC}
    for at, runs in ranges.items():
        assert runs == [range(len(broker.stored[at.partition]))]
    values = [int(value or b"") for number in range(3) for value in broker.stored[number]]
    assert sorted(values) == list(range(10_000))


def test_two_calls_tell_their_own_offsets(broker: ProduceBroker) -> None:
    with producing(broker) as producer:
        first = producer.send_many(TOPIC, [b"x"] * 5, partition=0)
        second = producer.send_many(TOPIC, [b"y"] * 3, partition=0)
        assert first.result(30) == {TopicPartition(TOPIC, 0): [range(5)]}
        assert second.result(30) == {TopicPartition(TOPIC, 0): [range(5, 8)]}


def test_keys_headers_and_times_stand_beside_the_values(broker: ProduceBroker) -> None:
    with producing(broker) as producer:
        producer.send_many(
            TOPIC,
            [b"a", b"b", None],
            keys=[b"k", None, b"l"],
            headers=iter([[("h", b"1")], None, ()]),
            timestamps_ms=(n for n in (17, 18, 19)),
        ).result(30)
    (seen,) = broker.seen
    assert [(one.timestamp_ms, one.key, one.value, one.headers) for one in read_records(seen.batch)] == [
        (17, b"k", b"a", (("h", b"1"),)),
        (18, None, b"b", ()),
        (19, b"l", None, ()),
    ]


@pytest.mark.parametrize("keys", [[b"k"], [b"k"] * 3])
def test_unequal_lengths_are_an_error_that_says_how_far_it_got(
    broker: ProduceBroker, keys: list[bytes]
) -> None:
    with producing(broker) as producer:
        with pytest.raises(ConfigurationError, match="as many items") as caught:
            producer.send_many(TOPIC, [b"a", b"b"], keys=keys)
        producer.flush(60)
    sent = min(len(keys), 2)
    records = {1: "1 record was", 2: "2 records were"}[sent]
    assert caught.value.__notes__ == [f"{records} sent by this send_many before the error"]
    assert len(broker.stored[0]) == sent


def test_nothing_is_nothing(broker: ProduceBroker) -> None:
    with producing(broker) as producer:
        bulk = producer.send_many(TOPIC, [])
        assert (bulk.count, bulk.done(), bulk.result(0), bulk.exception(0)) == (0, True, {}, None)


def test_what_an_iterable_gave_before_it_raised_stands(broker: ProduceBroker) -> None:
    def values() -> Iterator[bytes]:
        for number in range(2_500):
            yield b"%d" % number
        raise ZeroDivisionError

    with producing(broker) as producer:
        with pytest.raises(ZeroDivisionError) as caught:
            producer.send_many(TOPIC, values())
        producer.flush(60)
    assert caught.value.__notes__ == ["2,500 records were sent by this send_many before the error"]
    assert broker.stored[0] == [b"%d" % number for number in range(2_500)]


def test_a_wrong_value_in_the_middle_is_named_and_what_went_before_stands(broker: ProduceBroker) -> None:
    with producing(broker) as producer:
        with pytest.raises(TypeError, match="value_encoder") as caught:
            producer.send_many(TOPIC, [b"a", b"b", "text", b"c"])
        producer.flush(60)
    assert caught.value.__notes__ == ["2 records were sent by this send_many before the error"]
    assert broker.stored[0] == [b"a", b"b"]


def test_encoders_are_used(broker: ProduceBroker) -> None:
    with producing(broker, value_encoder=str.encode) as producer:
        producer.send_many(TOPIC, ["a", "b"]).result(30)
    assert broker.stored[0] == [b"a", b"b"]


def test_failures_are_counted_and_then_seen(broker: ProduceBroker) -> None:
    broker.faults.extend([None, Refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED)])
    with producing(broker, batch_size=0) as producer:
        bulk = producer.send_many(TOPIC, [b"x"] * 5)
        error = bulk.exception(30)
        assert isinstance(error, DeliveryError)
        assert error.count == 1
        assert isinstance(error.errors[TOPIC], BrokerError)
        assert "1 of 5 records for clicks" in str(error)
        with pytest.raises(DeliveryError):
            bulk.result(30)
        producer.flush(60)


def test_failures_that_nobody_sees_are_raised_by_flush(broker: ProduceBroker) -> None:
    broker.faults.append(Refuse(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with producing(broker) as producer:
        producer.send_many(TOPIC, [b"x"] * 5)
        with pytest.raises(DeliveryError, match="5 records"):
            producer.flush(60)


def test_waiting_has_an_end(broker: ProduceBroker) -> None:
    broker.faults.append(LoseAnswer(SILENCE))
    with producing(broker) as producer:
        bulk = producer.send_many(TOPIC, [b"x"] * 5)
        assert not bulk.done()
        for wait in (bulk.result, bulk.exception, producer.send(TOPIC, b"x").result):
            with pytest.raises(TypeError, match="timeout takes a number of seconds, or None, not '5'"):
                wait("5")  # type: ignore[arg-type]  # the mistake itself
        with pytest.raises(KafkaTimeoutError, match="not all of 5 records"):
            bulk.result(0.05)


def test_without_acks_there_are_no_offsets_to_tell(broker: ProduceBroker) -> None:
    with producing(broker, acks=0) as producer:
        bulk = producer.send_many(TOPIC, [b"x"] * 5)
        assert bulk.result(30) == {TopicPartition(TOPIC, 0): []}
