"""The requests that a program builds for a consumer of one broker."""

from collections.abc import Callable

import pytest

from pyklient import ConfigurationError, FetchRequestBuilder, PartitionFetch, SimpleFetchRequest
from pyklient.consumer.simple.fetch_requests import MOST_FETCHES, wire_request


def test_a_builder_keeps_the_order_of_its_fetches_and_the_last_one_of_a_partition() -> None:
    builder = FetchRequestBuilder().client_id("c").max_wait(10).min_bytes(2).max_bytes(3)
    builder.add_fetch("b", 0, 1, 100).add_fetch("a", 1, 2).add_fetch("b", 0, 5, 50)
    assert builder.build() == SimpleFetchRequest(
        (PartitionFetch("a", 1, 2, 1_048_576), PartitionFetch("b", 0, 5, 50)), "c", 10, 2, 3
    )


def test_a_builder_has_the_defaults_of_kafkas_and_begins_anew_after_build() -> None:
    builder = FetchRequestBuilder().min_bytes(9)
    first = builder.add_fetch("t", 0, 0, 1).build()
    assert (first.client_id, first.max_wait_ms, first.max_bytes) == (None, 0, 2**31 - 1)
    with pytest.raises(ConfigurationError, match="call add_fetch"):
        builder.build()
    second = builder.add_fetch("t", 1, 0, 1).build()
    assert ([each.partition for each in second.fetches], second.min_bytes) == ([1], 9)


def test_the_partitions_are_in_the_order_of_the_fetches_on_the_wire_too() -> None:
    fetches = [PartitionFetch(topic, number, 0) for topic, number in [("a", 0), ("b", 0), ("b", 1), ("a", 1)]]
    wire = wire_request(fetches, 1, 2, 3)
    order = [(topic.topic, [each.partition for each in topic.partitions]) for topic in wire.topics]
    assert order == [("a", [0]), ("b", [0, 1]), ("a", [1])]
    assert (wire.max_wait_ms, wire.min_bytes, wire.max_bytes, wire.replica_id) == (1, 2, 3, -1)


_ONE = PartitionFetch("t", 0, 0)


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (
            lambda: PartitionFetch("t", 0, -1),
            ConfigurationError,
            "cannot fetch from t-0: offset -1 is below 0",
        ),
        (lambda: PartitionFetch("t", -1, 0), ConfigurationError, "partition=-1 is out of range"),
        (lambda: PartitionFetch("t", 0, 0, 0), ConfigurationError, "max_bytes=0 is out of range"),
        (lambda: PartitionFetch("t", 0, 2**63), ConfigurationError, "the offset of t-0"),
        (lambda: PartitionFetch(b"t", 0, 0), TypeError, "topic takes a str"),  # type: ignore[arg-type]  # tried
        (lambda: SimpleFetchRequest(()), ConfigurationError, "names no partition"),
        (lambda: SimpleFetchRequest((_ONE, _ONE)), ConfigurationError, "twice.*use multifetch"),
        (lambda: SimpleFetchRequest([_ONE]), TypeError, "a tuple of PartitionFetch"),  # type: ignore[arg-type]  # tried
        (lambda: SimpleFetchRequest((_ONE,), max_wait_ms=-1), ConfigurationError, "max_wait_ms=-1"),
        (
            lambda: SimpleFetchRequest(
                tuple(PartitionFetch("t", each, 0) for each in range(MOST_FETCHES + 1))
            ),
            ConfigurationError,
            "32,768 fetches; at most 32,767",
        ),
        (lambda: FetchRequestBuilder().min_bytes(-1), ConfigurationError, "min_bytes=-1"),
        (lambda: FetchRequestBuilder().max_bytes(0), ConfigurationError, "max_bytes=0"),
        (lambda: FetchRequestBuilder().max_wait(2**31), ConfigurationError, "max_wait_ms=2147483648"),
    ],
)
def test_a_request_that_cannot_be_sent_is_an_error(
    make: Callable[[], object], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        make()
