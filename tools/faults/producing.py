"""An idempotent producer with five requests in flight, and faults between it and its brokers."""

import itertools
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyklient import Delivery, Producer
from pyklient.protocol.messages import (
    ApiVersionsRequest,
    InitProducerIdRequest,
    MetadataRequest,
    ProduceRequest,
)
from pyklient.protocol.schema import ApiMessage
from tests.servers.topics import create_topic, stored_records
from tools.faults.plan import seeded_plan
from tools.faults.proxy import FaultProxy

__all__ = ["order_problems", "produce_through_faults", "stored_numbers"]

_PARTITIONS = 6
_IN_FLIGHT = 5
_GAPS: dict[type[ApiMessage], tuple[int, int]] = {
    ProduceRequest: (20, 200),
    MetadataRequest: (1, 4),
    ApiVersionsRequest: (3, 15),
    InitProducerIdRequest: (1, 2),
}
"""The least and greatest number of requests of a kind between two faults."""
_LONGEST = 2.5
_OPTIONS: dict[str, Any] = {
    "batch_size": 400,
    "linger_ms": 0,
    "max_in_flight_requests_per_connection": _IN_FLIGHT,
    "request_timeout_ms": 1_500,  # less than the longest time for which bytes are held back
    "delivery_timeout_ms": 120_000,
    "reconnect_backoff_max_ms": 200,
}
_PER_PRODUCER = 10
_PATIENCE = 120.0
_ROUND = 10 * _PARTITIONS
_PAUSE = 0.01


def produce_through_faults(
    bootstrap: str, topic: str, *, seed: int, faults: int, say: Callable[[str], None]
) -> list[str]:
    """Create *topic* and send to it until *faults* faults have happened. Return the problems.

    Each record must be confirmed, and stored once and in the order in which it was sent. The stored records
    are read from the brokers at *bootstrap*, not through the proxy. *say* is called with each fault.
    """
    create_topic(bootstrap, topic, _PARTITIONS)
    sent: defaultdict[int, list[Delivery]] = defaultdict(list)
    with FaultProxy(bootstrap, seeded_plan(seed, _GAPS, _LONGEST), limit=faults) as proxy:
        told = 0
        while told < faults:
            goal = min(faults, told + _PER_PRODUCER)
            with Producer(proxy.bootstrap_servers, **_OPTIONS) as producer:
                while told < goal:
                    _send_round(producer, topic, sent)
                    for happened in itertools.islice(proxy.happened, told, None):
                        told += 1
                        say(f"{told}/{faults} {happened}")
                producer.flush(timeout=_PATIENCE)
        found = _not_confirmed(sent) + order_problems(
            {partition: len(deliveries) for partition, deliveries in sent.items()},
            stored_numbers(bootstrap, topic),
        )
        if proxy.most_in_flight != _IN_FLIGHT:
            found.append(f"{proxy.most_in_flight} requests were in flight at most, not {_IN_FLIGHT}")
    say(f"{sum(map(len, sent.values())):,} records, {len(proxy.missed)} planned faults did not happen")
    return [f"{each} (seed {seed})\n{proxy.report()}" for each in found]


def _send_round(producer: Producer, topic: str, sent: defaultdict[int, list[Delivery]]) -> None:
    for number in range(_ROUND):
        partition = number % _PARTITIONS
        value = b"%d" % len(sent[partition])
        sent[partition].append(producer.send(topic, value, partition=partition))
    time.sleep(_PAUSE)


def _not_confirmed(sent: Mapping[int, Sequence[Delivery]]) -> list[str]:
    errors = [(number, delivery.exception(timeout=0)) for number in sent for delivery in sent[number]]
    failed = [(number, error) for number, error in errors if error is not None]
    if not failed:
        return []
    number, error = failed[0]
    return [f"{len(failed)} records were not confirmed, the first in partition {number}: {error!r}"]


def stored_numbers(bootstrap: str, topic: str) -> dict[int, list[int]]:
    """Return the numbers that *topic* holds, by partition and in order, as librdkafka reads them."""
    stored: defaultdict[int, list[int]] = defaultdict(list)
    for message in stored_records(bootstrap, topic):
        stored[message.partition() or 0].append(int(message.value() or b"-1"))
    return stored


def order_problems(sent: Mapping[int, int], stored: Mapping[int, Sequence[int]]) -> list[str]:
    """Return the differences between the numbers *stored* in each partition and those sent to it."""
    found: list[str] = []
    for partition, count in sent.items():
        numbers = stored.get(partition, [])
        if lost := set(range(count)) - set(numbers):
            found.append(f"partition {partition}: {len(lost)} of {count} records are lost, first {min(lost)}")
        if doubled := len(numbers) - len(set(numbers)):
            found.append(f"partition {partition}: {doubled} records are stored more than once")
        first_of_each = list(dict.fromkeys(numbers))
        if late := [after for before, after in itertools.pairwise(first_of_each) if after < before]:
            found.append(f"partition {partition}: {len(late)} records are out of order, first {late[0]}")
    return found
