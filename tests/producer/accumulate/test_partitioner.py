"""The choice of the partition of a record."""

import itertools
import random
from collections import Counter

import pytest

from pyklient.errors import ConfigurationError
from pyklient.kernel import checked_partition, murmur2
from pyklient.producer.accumulate.partitioner import StickyPartitioner, as_partitioner
from tests.producer.script import TOPIC, ProduceBroker, producing


class Last:
    def partition(self, topic: str, key: bytes | None, count: int) -> int:
        return count - 1


def test_a_partitioner_is_a_function_or_an_object() -> None:
    for partitioner in (lambda topic, key, count: count - 1, Last()):
        choose = as_partitioner(partitioner)
        assert choose is not None
        assert choose("clicks", None, 5) == 4
    assert as_partitioner(None) is None


@pytest.mark.parametrize("partitioner", [5, "hash", object(), Last])
def test_what_is_no_partitioner_is_refused(partitioner: object) -> None:
    with pytest.raises(ConfigurationError, match="partitioner"):
        as_partitioner(partitioner)


@pytest.mark.parametrize("chosen", [5, -1, None, True, 1.0, "0"])
def test_a_partition_out_of_range_is_named(chosen: object) -> None:
    with pytest.raises(ConfigurationError, match="'clicks', which has 5 partitions"):
        checked_partition("clicks", chosen, 5)
    with pytest.raises(ConfigurationError, match="'clicks', which has 1 partition: "):
        checked_partition("clicks", 5, 1)


def test_the_partitioner_gets_the_encoded_key() -> None:
    asked: list[tuple[str, bytes | None, int]] = []

    def choose(topic: str, key: bytes | None, count: int) -> int:
        asked.append((topic, key, count))
        return 2

    with ProduceBroker(partitions=3) as broker:
        options = {"partitioner": choose, "key_encoder": str.encode}
        with producing(broker, **options) as producer:
            assert producer.send(TOPIC, b"x", key="user").result(30).partition == 2
            assert producer.send(TOPIC, b"x", key="user", partition=1).result(30).partition == 1
    assert asked == [(TOPIC, b"user", 3)]


def test_sticky_goes_elsewhere_and_everywhere() -> None:
    sticky = StickyPartitioner(random.Random(1))
    current, chosen = 0, []
    for _ in range(4_000):
        following = sticky.next(range(8), 8, current, {})
        assert following != current
        chosen.append(following)
        current = following
    assert all(400 < count < 600 for count in Counter(chosen).values())


def test_sticky_prefers_partitions_with_less_under_way() -> None:
    sticky = StickyPartitioner(random.Random(1))
    chosen = Counter(sticky.next(range(4), 4, 3, {0: 9}) for _ in range(900))
    assert chosen[0] < chosen[1] / 2


def test_sticky_takes_no_longer_for_more_partitions() -> None:
    assert StickyPartitioner(random.Random(1)).next(range(1 << 60), 1 << 60, 0, {}) > 0


def test_sticky_takes_what_there_is() -> None:
    sticky = StickyPartitioner(random.Random(1))
    assert sticky.next([2], 4, 2, {}) == 2
    assert sticky.next([1], 4, 2, {}) == 1
    assert sticky.next([], 2, 0, {}) == 1
    assert sticky.next([], 1, 0, {}) == 0


def test_records_without_a_key_spread_over_all_partitions_batch_by_batch() -> None:
    options = {"batch_size": 500, "linger_ms": 60_000, "delivery_timeout_ms": 120_000}
    with ProduceBroker(partitions=4) as broker, producing(broker, **options) as producer:
        sent = [producer.send(TOPIC, bytes(20)) for _ in range(5_000)]
        producer.flush(60)
        partitions = [delivery.result(30).partition for delivery in sent]
    switches = sum(left != right for left, right in itertools.pairwise(partitions))
    assert set(partitions) == {0, 1, 2, 3}
    assert switches < 5_000 / 10


def test_keys_stay_where_javas_client_puts_them() -> None:
    with ProduceBroker(partitions=6) as broker, producing(broker) as producer:
        for number in range(200):
            key = b"user-%d" % number
            assert producer.send(TOPIC, b"x", key=key).partition == murmur2(key) % 6
