"""Audits: what they find equal, and which differences they name."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pytest

from pyklient import Producer
from pyklient.admin import Admin
from pyklient.broker import Broker
from pyklient.errors import ConfigurationError
from pyklient.mirror.cluster_audit import AuditRow, audit

_START = datetime(2025, 3, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[str, str]]:
    """Two clusters, each of one reference broker."""
    with Broker() as source, Broker() as target:
        yield source.bootstrap_servers, target.bootstrap_servers


def fill(servers: str, topic: str, numbers: list[int], batch_size: int = 1_000_000, **fields: Any) -> None:
    """Send one record for each of *numbers*, to partition *number* modulo 2."""
    with Admin(servers) as admin:
        if topic not in admin.topics():
            admin.create_topic(topic, 2)
    with Producer(servers, batch_size=batch_size) as producer:
        for number in numbers:
            record: dict[str, Any] = {
                "key": b"k%d" % (number % 7) if number % 3 else None,
                "timestamp_ms": int(_START.timestamp() * 1000) + number * 1000,
                "headers": [("n", b"%d" % number)] if number % 2 else (),
            } | fields
            producer.send(topic, b"value %d" % number, partition=number % 2, **record)


def test_the_options_of_a_mirror_are_those_of_an_audit(clusters: tuple[str, str]) -> None:
    """Options for members of groups, which a mirror needs for its source, change nothing."""
    for servers in clusters:
        fill(servers, "options", [1, 2])
    source = {"bootstrap_servers": clusters[0], "auto_offset_reset": "earliest", "session_timeout_ms": 6_000}
    assert all(row.equal for row in audit(source, clusters[1], "options"))


def test_equal_records_are_equal_whatever_their_batches_and_offsets(clusters: tuple[str, str]) -> None:
    source, target = clusters
    fill(source, "equal", list(range(500)))
    fill(target, "equal", list(range(500)), batch_size=300)
    rows = audit(source, target, "equal")
    assert [(row.topic, row.partition, row.source.records, row.equal) for row in rows] == [
        ("equal", 0, 250, True),
        ("equal", 1, 250, True),
    ]
    assert rows[0].source.digest != rows[1].source.digest
    assert all(row.difference == "" for row in rows)


@pytest.mark.parametrize(
    ("numbers", "fields", "difference"),
    [
        pytest.param(range(99), {}, "the target has 1 fewer", id="a record is missing"),
        pytest.param([*range(100), 98], {}, "the target has 1 more", id="a record is there twice"),
        pytest.param(
            [1, 0, 3, 2, *range(4, 96), 97, 96, 99, 98],
            {},
            "",
            id="partitions are independent",
        ),
        pytest.param([2, 1, 0, *range(3, 100)], {}, "other contents or another order", id="another order"),
        pytest.param(range(100), {"key": b"k"}, "other contents or another order", id="other keys"),
        pytest.param(range(100), {"headers": [("n", None)]}, "other contents or another order", id="headers"),
        pytest.param(range(100), {"timestamp_ms": 5}, "other timestamps", id="timestamps"),
    ],
)
def test_a_difference_is_named(
    clusters: tuple[str, str],
    request: pytest.FixtureRequest,
    numbers: list[int],
    fields: dict[str, Any],
    difference: str,
) -> None:
    source, target = clusters
    topic = "different-" + request.node.callspec.id.replace(" ", "-")
    fill(source, topic, list(range(100)))
    fill(target, topic, list(numbers), **fields)
    found = {row.difference for row in audit(source, target, topic)} - {""}
    assert found == ({difference} if difference else set())


@pytest.mark.parametrize("by", ["partition", "topic"])
def test_null_differs_from_an_empty_value(
    clusters: tuple[str, str], by: Literal["partition", "topic"]
) -> None:
    topic = f"null-{by}"
    for servers, value in zip(clusters, (None, b""), strict=True):
        with Admin(servers) as admin, Producer(servers) as producer:
            admin.create_topic(topic)
            producer.send(topic, value, timestamp_ms=5)
    assert [row.difference != "" for row in audit(*clusters, topic, by=by)] == [True]


def test_by_topic_the_order_and_the_partitions_do_not_matter(clusters: tuple[str, str]) -> None:
    source, target = clusters
    fill(source, "spread", list(range(100)))
    fill(target, "spread", [*range(50, 100), *range(50)])
    with Producer(target) as producer:
        for number in range(10):
            producer.send("moved", b"%d" % number, partition=0, timestamp_ms=number)
    with Producer(source) as producer:
        for number in range(10):
            producer.send("moved", b"%d" % number, timestamp_ms=number)
    assert [row.equal for row in audit(source, target, "spread|moved", by="topic")] == [True, True]
    assert not all(row.equal for row in audit(source, target, "spread"))
    fill(target, "spread", [3])
    (row,) = audit(source, target, "spread", by="topic")
    assert (row.partition, row.equal, row.difference) == (None, False, "the target has 1 more")


def test_only_records_in_the_range_of_time_count(clusters: tuple[str, str]) -> None:
    source, target = clusters
    fill(source, "timed", list(range(100)))
    fill(target, "timed", list(range(20, 60)))
    since, until = _START + timedelta(seconds=20), _START + timedelta(seconds=60)
    rows = audit(source, target, "timed", since=since, until=until)
    assert [(row.source.records, row.equal) for row in rows] == [(20, True), (20, True)]
    later = until + timedelta(seconds=1)
    assert [row.equal for row in audit(source, target, "timed", since=since, until=later)] == [False, True]


def test_a_topic_that_the_target_does_not_have_is_empty_there(clusters: tuple[str, str]) -> None:
    source, target = clusters
    fill(source, "only-here", [1, 2, 3])
    rows: list[AuditRow] = audit(source, target, "only-here")
    assert [(row.source.records, row.target.records, row.equal) for row in rows] == [
        (1, 0, False),
        (2, 0, False),
    ]


def test_the_progress_is_told(clusters: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = clusters
    monkeypatch.setattr("pyklient.mirror.cluster_audit._TICK", 0.0)
    fill(source, "shown", list(range(10)))
    told: list[tuple[str, str, int]] = []
    audit(source, target, "shown", on_progress=lambda *each: told.append(each))
    assert {side for side, _, _ in told} == {"source"}
    assert max(told) == ("source", "shown", 10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"by": "offset"}, "by must be"),
        ({"since": _START.replace(tzinfo=None)}, "time zone"),
        ({"topics": "no-such-topic"}, "no topic of the source cluster matches"),
    ],
)
def test_bad_arguments(clusters: tuple[str, str], arguments: dict[str, Any], message: str) -> None:
    source, target = clusters
    with pytest.raises(ConfigurationError, match=message):
        audit(source, target, **({"topics": "equal"} | arguments))
