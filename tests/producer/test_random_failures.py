"""Random failures of every kind: records reported as stored are stored once and in order, and nothing
hangs."""

import random

import pytest

from tests.net.scripted import HANG_UP
from tests.producer.script import TOPIC, Fault, LoseAnswer, ProduceBroker, Refuse, producing
from tests.run.seed import dice

pytestmark = pytest.mark.both_kernels

RETRIABLE = [2, 5, 6, 7, 19, 20, 56]
FINAL = [-1, 29, 42, 87]


def random_fault(chance: random.Random) -> Fault:
    kind = chance.random()
    if kind < 0.5:
        return None
    if kind < 0.65:
        return Refuse(chance.choice([*RETRIABLE, 45]))
    if kind < 0.75:
        return LoseAnswer(chance.choice([6, 7, 20, 56, -1]))
    if kind < 0.9:
        return LoseAnswer(HANG_UP)
    return Refuse(chance.choice(FINAL))


@pytest.mark.parametrize("course", range(25))
def test_what_is_confirmed_is_stored_once_and_in_order(course: int) -> None:
    chance = dice("failures", course)
    with ProduceBroker(partitions=2) as broker:
        broker.faults.extend(random_fault(chance) for _ in range(chance.randrange(60)))
        broker.largest = chance.choice([1 << 30, 200])
        options = {"batch_size": chance.choice([0, 100, 400]), "linger_ms": chance.choice([0, 1])}
        with producing(broker, **options) as producer:
            sent = [
                (number, producer.send(TOPIC, b"%d" % number, partition=number % 2)) for number in range(120)
            ]
            failed = {number for number, delivery in sent if delivery.exception(30) is not None}
        for partition in range(2):
            stored = [int(value or b"") for value in broker.stored[partition]]
            confirmed = [number for number, _ in sent if number % 2 == partition and number not in failed]
            assert len(set(stored)) == len(stored), "something is stored twice"
            assert [number for number in stored if number not in failed] == confirmed
            assert stored == sorted(stored), "out of order"
