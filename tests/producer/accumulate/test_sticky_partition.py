"""The partition of records without a key: how long it stays, and which partitions are left out (KIP-794)."""

import random
from collections.abc import Iterator
from itertools import groupby, islice, pairwise

import pytest

from pyklient.kernel import Delivery
from pyklient.producer.accumulate.leader_availability import LeaderAvailability
from pyklient.producer.accumulate.partitioner import StickyPartitioner
from tests.producer.accumulate.test_accumulator import LIMITS, Bench
from tests.producer.holding import HoldingBroker
from tests.producer.script import TOPIC, ProduceBroker, wait_until

PARTITIONS = 4
LARGE = LIMITS._replace(batch_size=1_000_000, max_request_size=1_000_000, buffer_memory=1 << 26)
VALUE = bytes(1_000)
STAYS = 16_384


def lingered(bench: Bench) -> Delivery:
    """Send a record whose batch is sent and stored before the next record."""
    delivery = bench.send("clicks", VALUE)
    bench.finish(delivery.batch_and_index[0])
    return delivery


def sizes_of_runs(bench: Bench, records: int) -> list[int]:
    """Return the bytes that went to one partition before the next one was chosen, without the last run."""
    deliveries = [lingered(bench) for _ in range(records)]
    runs = groupby(deliveries, lambda one: one.partition)
    return [sum(one.batch_and_index[0].size for one in run) for _, run in runs][:-1]


@pytest.mark.parametrize(
    ("batch_size", "least"), [(1_000_000, STAYS), (STAYS, STAYS), (5_000, 5_000), (500, 500), (0, 1)]
)
def test_batches_that_are_sent_early_stay_with_a_partition_for_enough_bytes(
    batch_size: int, least: int
) -> None:
    bench = Bench(LARGE._replace(batch_size=batch_size), clicks=PARTITIONS)
    sizes = sizes_of_runs(bench, 300)
    assert len(sizes) >= 10
    assert all(least <= size < least + 1_100 for size in sizes)


def test_all_partitions_get_equally_many_bytes() -> None:
    bench = Bench(LARGE, clicks=PARTITIONS)
    deliveries = [lingered(bench) for _ in range(8_000)]
    for partition in range(PARTITIONS):
        assert 1_500 <= sum(one.partition == partition for one in deliveries) <= 2_500


def test_a_batch_that_is_full_is_followed_by_one_of_another_partition() -> None:
    bench = Bench(LARGE._replace(batch_size=5_000), clicks=PARTITIONS)
    batches = dict.fromkeys(bench.send("clicks", VALUE).batch_and_index[0] for _ in range(400))
    partitions = [batch.partition for batch in batches]
    assert all(one != following for one, following in pairwise(partitions))


def test_the_first_partition_is_any_of_them() -> None:
    firsts = {
        Bench(sticky=StickyPartitioner(random.Random(seed)), clicks=2).send("clicks", b"x").partition
        for seed in range(30)
    }
    assert firsts == {0, 1}


def test_a_topic_that_was_forgotten_begins_with_any_partition_again() -> None:
    bench = Bench(LARGE, clicks=2)
    firsts = set()
    for _ in range(30):
        firsts.add(lingered(bench).partition)
        bench.accumulator.appender.remove_topic("clicks")
    assert firsts == {0, 1}


def unfinished_in_one_run(bench: Bench) -> Iterator[Delivery]:
    """Send records in batches of their own that stay unfinished, as long as they go to one partition."""
    first = bench.send("clicks", b"x")
    delivery = first
    while delivery.partition == first.partition:
        yield delivery
        bench.accumulator.appender.seal_batch(delivery.batch_and_index[0])
        delivery = bench.send("clicks", b"x")


def test_a_partition_whose_batches_are_not_stored_is_left_early() -> None:
    assert len(list(unfinished_in_one_run(Bench(LARGE, clicks=PARTITIONS)))) == 5


def test_without_adaptive_partitioning_a_slow_partition_is_not_left_early() -> None:
    sticky = StickyPartitioner(random.Random(1), adaptive=False)
    bench = Bench(LARGE, sticky=sticky, clicks=PARTITIONS)
    assert len(list(islice(unfinished_in_one_run(bench), 50))) == 50


def test_without_adaptive_partitioning_slow_partitions_are_chosen_as_often() -> None:
    sticky = StickyPartitioner(random.Random(1), adaptive=False)
    chosen = [sticky.next(range(4), 4, 3, {0: 9}) for _ in range(900)]
    assert 200 <= chosen.count(0) <= 400


def test_records_leave_a_leader_that_accepts_no_requests_until_it_does() -> None:
    bench = Bench(LARGE, clicks=PARTITIONS)
    stuck = lingered(bench).partition
    bench.leaders.blocked(stuck)
    bench.now += 0.9
    assert lingered(bench).partition == stuck
    bench.now += 0.2
    assert stuck not in {lingered(bench).partition for _ in range(1_000)}
    bench.leaders.accepts(stuck)
    assert stuck in {lingered(bench).partition for _ in range(1_000)}


def test_a_broker_is_available_until_it_has_been_blocked_for_the_timeout() -> None:
    now = 10.0
    leaders = LeaderAvailability(1.0, lambda: now)
    leaders.blocked(1)
    now = 10.8
    leaders.blocked(1)
    leaders.blocked(2)
    assert leaders.unavailable() == frozenset()
    now = 11.1
    assert leaders.unavailable() == {1}
    leaders.accepts(1)
    leaders.accepts(3)
    assert leaders.unavailable() == frozenset()
    now = 20.0
    assert leaders.unavailable() == {2}


def test_without_a_timeout_every_broker_is_available() -> None:
    now = 10.0
    leaders = LeaderAvailability(0, lambda: now)
    leaders.blocked(1)
    now = 1e9
    assert leaders.unavailable() == frozenset()


def test_records_without_a_key_go_elsewhere_while_a_broker_answers_no_request() -> None:
    options = {
        "batch_size": 0,
        "max_in_flight_requests_per_connection": 1,
        "partitioner_availability_timeout_ms": 3_600_000,
    }
    with HoldingBroker(2) as stuck, ProduceBroker(2, node_id=2) as other:
        for broker in (stuck, other):
            broker.peers = [stuck, other]
            broker.leaders = {0: 1, 1: 2}
        stuck.hold()
        with stuck.producer(**options) as producer:
            leaders = producer._accumulator.choice.leaders
            held = producer.send(TOPIC, b"held", partition=0)
            wait_until(lambda: stuck.unanswered == 1 and 1 in leaders._blocked_since)
            leaders._blocked_since[1] -= 7_200  # as if two hours had passed
            deliveries = [producer.send(TOPIC, b"x") for _ in range(100)]
            assert {delivery.result(10).partition for delivery in deliveries} == {1}
            producer.send(TOPIC, b"next", partition=0)
            stuck.answer_one()
            wait_until(lambda: stuck.unanswered == 1 and leaders.unavailable() == frozenset())
            stuck.let_go()
            assert held.result(10).partition == 0
            wait_until(lambda: producer.send(TOPIC, b"x").result(10).partition == 0)
