"""The distribution of tests to workers: tests that share a server stay together, and the lanes take about the
same time."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tests.run import groups
from tests.run.groups import SPARK, group_of, is_slow, lanes, uses
from tests.servers.kinds import KINDS, SUITE, Wanted

_SERVERS = [SPARK, *(name for name in KINDS if is_slow(name))]


def item(nodeid: str, *fixtures: str, broker: str | None = None, used: Sequence[str] = ()) -> Any:
    """Return an object with the attributes of a collected test that are used."""
    return SimpleNamespace(
        nodeid=nodeid,
        fixturenames=fixtures,
        callspec=SimpleNamespace(params={"any_broker": broker} if broker else {}),
        iter_markers=lambda name: [SimpleNamespace(args=used)] if used else [],
    )


@pytest.mark.parametrize("count", [1, 2, 3])
def test_each_server_is_in_one_lane(count: int) -> None:
    dealt = lanes([*_SERVERS, "tests/config/test_options.py"], count)
    assert len(dealt) == count
    assert sorted(group for lane in dealt for group in lane) == sorted(_SERVERS)


def test_the_longest_groups_come_first_and_the_lanes_are_about_as_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    known = {SPARK: 10.0, "kafka-4.3.1": 5.0, "cluster": 4.0, "kafka-2.8.2": 3.0, "secure": 1.0}
    monkeypatch.setattr(groups, "_SECONDS", known)
    assert lanes(known, 2) == [[SPARK, "secure"], ["kafka-4.3.1", "cluster", "kafka-2.8.2"]]


def test_a_test_is_in_the_group_of_its_slowest_server_or_of_its_file() -> None:
    assert group_of(item("tests/a.py::t[x]", broker="kafka-2.8.2")) == "kafka-2.8.2"
    assert group_of(item("tests/a.py::t", "secure_kafka")) == "secure"
    assert group_of(item("tests/a.py::t", "spark", broker="kafka-4.3.1")) == SPARK
    assert group_of(item("tests/a.py::t", used=["spark"])) == SPARK
    assert group_of(item("tests/a.py::t", "reference_broker")) == "tests/a.py"
    assert group_of(item("tests/a.py::t", broker="external")) == "tests/a.py"


def test_a_worker_knows_the_servers_of_its_lane_and_those_of_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(groups, "_SECONDS", {SPARK: 2.0, "kafka-4.3.1": 1.0})
    items = [
        item("tests/a.py::one", broker="kafka-4.3.1"),
        item("tests/a.py::two", "spark", broker="reference"),
        item("tests/a.py::three"),
        item("tests/b.py::four", "spark"),
    ]
    found = [[use.test for use in uses(items, worker, 2)] for worker in ("gw0", "gw1", "gw2")]
    assert found == [["tests/a.py::two", "tests/b.py::four"], ["tests/a.py::one"], []]
    assert [use.servers for use in uses(items, None, 1)] == [
        ("kafka-4.3.1",),
        (SPARK, "reference"),
        (),
        (SPARK,),
    ]


@pytest.mark.parametrize(
    ("wanted", "fitting"),
    [
        (Wanted(), [*SUITE]),
        (Wanted(min="2.4"), [*SUITE]),
        (Wanted(min="2.8", max="2.8"), ["kafka-2.8.2"]),
        (Wanted(min="4"), ["reference", "kafka-4.3.1"]),
        (Wanted(min="2.4", zookeeper=True), ["kafka-2.8.2"]),
        (Wanted(real=False), ["reference"]),
        (Wanted(min="4.3", real=True), ["kafka-4.3.1"]),
        (Wanted(needs=["transactions"]), [*SUITE]),
        (Wanted(needs=["old requests"]), ["reference", "kafka-2.8.2"]),
    ],
    ids=str,
)
def test_brokers_are_chosen_by_what_they_are_and_can_do(wanted: Wanted, fitting: list[str]) -> None:
    assert [name for name in SUITE if wanted.fits(KINDS[name])] == fitting


@pytest.mark.parametrize("needs", ["transactions", ["teleportation"]])
def test_what_no_broker_can_do_is_a_mistake_in_the_marker(needs: Any) -> None:
    with pytest.raises(ValueError, match="it takes a list of compaction, deletion of records"):
        Wanted(needs=needs)
