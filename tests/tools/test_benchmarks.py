"""The parts of `make bench` work: every client in every scenario, the checks, the page."""

import re
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pyklient import Admin
from pyklient.broker import Broker
from pyklient.protocol.records import iter_batches
from tools.benchmarks.bench import Bench, Results, check, rotated, run_job
from tools.benchmarks.charts import draw
from tools.benchmarks.page import page
from tools.benchmarks.report import group_table, targets_table
from tools.benchmarks.scenarios import CONSUME, PRODUCE, SCENARIOS, Scenario
from tools.benchmarks.shapes import GROUPS, SHAPES
from tools.benchmarks.work import Job, Measured, TransactionEnds

_PATHS = {
    (each.client, each.task, each.kernel, scenario.field, scenario.transaction_records > 0): (scenario, each)
    for scenario in SCENARIOS
    for each in scenario.contenders
}
"""For each path through a client's program, the last scenario that takes it. The last ones ask most: they
compress the values, and have the higher rate."""
_SCENARIOS = [each for each in SCENARIOS if any(scenario is each for scenario, _ in _PATHS.values())]

_LONG = re.compile("flights|msgspec")

_OF_EACH_PATH = [
    each
    for each in SHAPES
    if re.search("10 part|lz4, batches|Enc|Part.*with|acks|Tomb|Slow|scripted|Start", each.title)
]
"""The shapes that take different paths through the clients' programs."""


def _with_marks(scenarios: list[Scenario]) -> list[Any]:
    """Return the parameters of a test of *scenarios*. Those with flights, which are the slowest, and those
    that differ from another scenario only in a library run in `make test-long`."""
    return [
        pytest.param(each, id=each.title, marks=pytest.mark.long if _LONG.search(each.title) else ())
        for each in scenarios
    ]


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with Broker() as broker, Broker() as other:
        bench = Bench(broker.bootstrap_servers, 0.0001, other.bootstrap_servers)
        yield bench
        bench.close()


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.parametrize("scenario", _with_marks(_SCENARIOS))
def test_every_client_does_what_the_scenario_asks(bench: Bench, scenario: Scenario) -> None:
    bench.load(scenario)
    for contender in (each for at, each in _PATHS.values() if at is scenario):
        measured = bench.trial(scenario, contender)
        assert measured.records >= 100
        assert measured.payload_bytes >= 100 * 100
        assert measured.wall > 0
        assert measured.cpu > 0
        assert measured.peak_mib > 1
        assert bool(measured.percentiles_ms) == bool(scenario.rate)
    bench.drop(scenario)


@pytest.mark.slow
@pytest.mark.parametrize("scenario", _with_marks(_OF_EACH_PATH))
def test_both_clients_handle_records_of_each_shape(bench: Bench, scenario: Scenario) -> None:
    bench.load(scenario)
    for contender in scenario.contenders:
        measured = bench.trial(scenario, contender)
        assert measured.records >= contender.records * 0.0001
        assert measured.wall > 0
        assert measured.cpu > 0
        assert (measured.cpu == measured.steady_cpu) == scenario.is_steady
    bench.drop(scenario)


@pytest.mark.slow
@pytest.mark.parametrize("client", ["own", "confluent"])
@pytest.mark.parametrize("records", [1, 18, 150])
def test_producers_fill_batches_up_to_the_number_of_records(client: str, records: int) -> None:
    with Broker() as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_topic("clicks", partitions=1)
        job = replace(_job("produce"), client=client, bootstrap_servers=broker.bootstrap_servers)
        run_job(replace(job, records=1_001, batch_records=records, linger_ms=1_000), "compiled")
        log = (broker.data_dir / "clicks-0" / f"{0:020}.log").read_bytes()
    first, *full, _last = [batch.count for batch in iter_batches(log)]
    assert first == 1  # it opens the connection
    assert set(full) == {records}


def test_a_client_that_fails_ends_the_run_and_says_why() -> None:
    with pytest.raises(RuntimeError, match=r"own failed at no such task:[\s\S]*KeyError"):
        run_job(_job("no such task"), "python")


@pytest.mark.parametrize(
    ("task", "records", "stored", "size"),
    [("produce", 99, 99, 0), ("produce", 100, 99, 0), ("produce", 100, 101, 0), ("consume", 99, 0, 9_900)],
)
def test_a_run_that_loses_or_doubles_records_is_refused(
    task: str, records: int, stored: int, size: int
) -> None:
    with pytest.raises(RuntimeError, match=rf"own at {task}: \d+ of 100 records"):
        check(_job(task), Measured(records=records, payload_bytes=size), stored)


def test_a_mirror_that_has_not_copied_all_records_is_refused() -> None:
    measured = Measured(records=100, payload_bytes=10_000)
    check(_job("mirror"), measured, 101)
    with pytest.raises(RuntimeError, match="own at mirror: 99 of 100 records are stored"):
        check(_job("mirror"), measured, 99)


@pytest.mark.parametrize(
    ("stored", "is_right"), [(103, False), (104, True), (105, True), (120, True), (121, False)]
)
def test_each_transaction_has_a_marker_in_one_partition_at_least(stored: int, is_right: bool) -> None:
    measured = Measured(records=100, transactions=5)
    with nullcontext() if is_right else pytest.raises(RuntimeError, match=f"{stored} of 100 records"):
        check(_job("transactions"), measured, stored)


@pytest.mark.parametrize(("records", "ends"), [(1_000, [True, True]), (2_000, [False, True])])
def test_a_transaction_ends_after_its_records(records: int, ends: list[bool]) -> None:
    plan = TransactionEnds(replace(_job("transactions"), transaction_records=records))
    plan.begin()
    assert plan.after(1_000) is ends[0]
    if ends[0]:
        plan.begin()
    assert plan.after(1_000) is ends[1]


def test_a_transaction_of_a_second_ends_when_the_second_has_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [10.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    plan = TransactionEnds(_job("transactions"))
    plan.begin()
    now[0] = 10.9
    assert not plan.after(1_000_000)
    now[0] = 11.0
    assert plan.after(1)


def test_a_run_that_reads_other_bytes_is_refused() -> None:
    check(_job("consume"), Measured(records=100, payload_bytes=10_000), 0)
    with pytest.raises(RuntimeError, match="9,900 bytes in 100 records"):
        check(_job("consume"), Measured(records=100, payload_bytes=9_900), 0)


def test_contenders_change_places_but_all_run_in_each_round() -> None:
    rounds = [rotated(PRODUCE.contenders, number) for number in range(5)]
    assert all(set(contenders) == set(PRODUCE.contenders) for contenders in rounds)
    assert all(before[0] != after[0] for before, after in pairwise(rounds))


@pytest.mark.parametrize(("middle", "reached"), [(5.1, "yes"), (4.9, "no")])
def test_a_target_is_reached_by_the_median_of_the_ratios_within_rounds(middle: float, reached: str) -> None:
    results = _results(PRODUCE, cpus=[1.0, 1.0, 1.0])
    results.runs["confluent-kafka"] = [_measured(cpu) for cpu in (2.0, middle, 9.0)]
    [row] = [row for row in targets_table([results]).splitlines() if "CPU 5 times less" in row]
    assert row.endswith(f"| {middle:.2f} (2.00 to 9.00) | {reached} |")


def test_the_page_has_a_table_for_every_scenario_and_every_client() -> None:
    finished = [_results(each, cpus=[1.0, 2.0]) for each in (*SCENARIOS, *SHAPES)]
    text = page(finished, ["a machine"], [("client", "words")], "Measured today.")
    for group in GROUPS:
        part = text.split(f"## {group.title}\n")[1].split("\n## ")[0]
        assert part.count("\n| ") == len(group.rows) + 2
        assert ("](benchmarks/" in part) == bool(group.axis)
    for scenario in SCENARIOS:
        part = text.split(f"## {scenario.title}\n")[1].split("\n## ")[0]
        assert part.count("\n| ") == len(scenario.contenders) + 2
    assert "- a machine" in text
    assert "### client\n\nwords" in text


def test_a_page_keeps_what_it_says_about_scenarios_that_were_not_run() -> None:
    whole = [_results(each, cpus=[6.0, 7.0]) for each in (*SCENARIOS, *SHAPES)]
    before = page(whole, ["a machine"], [("client", "words")], "Measured in May.")
    assert page([], ["a machine"], [("client", "words")], "", before) == before
    after = page(
        [_results(CONSUME, cpus=[3.0])], ["a machine"], [("client", "words")], "Measured in June.", before
    )
    changed = {old for old, new in zip(before.splitlines(), after.splitlines(), strict=True) if old != new}
    assert after.count("Measured in June.") == 1
    assert f"## {CONSUME.title}\n\nMeasured in June.\n\n| client |" in after
    assert not {line for line in changed if "produce" in line.lower()}


def test_a_table_of_shapes_is_on_the_page_when_all_its_scenarios_were_run() -> None:
    group = GROUPS[0]
    some = [_results(row.scenario, cpus=[1.0]) for row in group.rows[:-1]]
    assert f"## {group.title}" not in page(some, [], [], "")
    assert len(group_table(group, some).splitlines()) == len(some) + 2


def test_charts_show_the_shapes_and_are_the_same_for_the_same_figures(tmp_path: Path) -> None:
    for group in (each for each in GROUPS if each.axis):
        finished = [_results(row.scenario, cpus=[1.0, 2.0, 4.0]) for row in group.rows]
        charts = [tmp_path / "charts" / f"{number}{group.image}" for number in range(2)]
        for each in charts:
            draw(group, finished, each)
        first, second = (each.read_text(encoding="utf-8") for each in charts)
        assert first == second
        assert {group.axis, "pyklient", "confluent-kafka", "produce 100 B", "consume 100 B"} <= set(
            re.findall(r"<text[^>]*>([^<]*)</text>", first)
        )


def _job(task: str) -> Job:
    return Job("own", task, "localhost:1", "clicks", records=100, value_size=100)


def _measured(cpu: float) -> Measured:
    measured = Measured(records=1_000, payload_bytes=100_000, wall=1.0, cpu=cpu, peak_mib=10)
    measured.percentiles_ms = {"p50": cpu, "p99": cpu, "p99.9": cpu}
    return measured


def _results(scenario: Scenario, cpus: list[float]) -> Results:
    return Results(scenario, {each.name: [_measured(cpu) for cpu in cpus] for each in scenario.contenders})
