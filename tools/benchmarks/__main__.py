"""`make bench`: starts real Kafka, runs every client in rounds, prints the ratios and writes the page."""

import argparse
import importlib
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from pyklient.counted import counted
from tools.benchmarks import charts, machine
from tools.benchmarks.bench import Bench, Results, rotated
from tools.benchmarks.clients import java, mirror_maker
from tools.benchmarks.clusters import Clusters
from tools.benchmarks.page import IMAGES, page, whole_groups
from tools.benchmarks.report import group_table, scenario_table, targets_table
from tools.benchmarks.scenarios import SCENARIOS, Scenario
from tools.benchmarks.shapes import GROUPS, SHAPES
from tools.docs import benchmark_row

_PAGE = benchmark_row.BENCHMARKS
_ALL = (*SCENARIOS, *SHAPES)
_ROUNDS = 5
_MINUTES = 60


def main() -> None:
    options = _parser().parse_args()
    if options.list:
        print("\n".join(each.title for each in _ALL))
        return
    chosen = [_without(each, options.without) for each in _ALL if _is_in(each.title, options.only or [""])]
    if not chosen:
        raise SystemExit("no such scenario; --list prints the titles of all scenarios")
    is_whole = not options.only and not options.without and options.scale == 1
    target = options.page or (_PAGE if is_whole else None)
    old = _page_before(target, is_whole=is_whole)
    console, began = Console(), time.monotonic()
    finished: list[Results] = []
    try:
        for results in _run(chosen, options.rounds, options.scale, options.minutes * 60, console):
            finished.append(results)
    finally:  # a scenario that fails leaves the results of those before it
        _print_summary(finished, chosen, console)
        if target is not None and finished:
            when = f"Measured on {datetime.now(UTC):%Y-%m-%d}, {counted(options.rounds, 'round', 'rounds')}."
            _write_page(target, finished, when, old)
            console.print(f"written: {target}")
        console.print(f"{(time.monotonic() - began) / 60:.1f} minutes for everything")


def _page_before(target: Path | None, *, is_whole: bool) -> str:
    """Return the text of *target*, whose figures stay if the run does not measure them again.

    Returns "" if they are from another machine or other versions. Exits then if the run is not whole.
    """
    if target is None or not target.exists():
        return ""
    old = target.read_text(encoding="utf-8")
    if all(f"- {fact}\n" in old for fact in machine.facts()):
        return old
    if not is_whole:
        raise SystemExit(
            f"{target} has figures from another machine or other versions, and this run would keep some of "
            "them: run all scenarios, or name another file with --page"
        )
    return ""


def _write_page(target: Path, finished: Sequence[Results], when: str, old: str) -> None:
    target.write_text(page(finished, _facts(), _setups(), when, old), encoding="utf-8")
    for group in whole_groups(finished):
        if group.axis:
            charts.draw(group, finished, target.parent / IMAGES / group.image)
    if target == _PAGE:
        benchmark_row.write()


def _print_summary(finished: Sequence[Results], chosen: Sequence[Scenario], console: Console) -> None:
    for group in GROUPS:
        if text := group_table(group, finished):
            console.rule(group.title)
            console.print(Markdown(text))
    console.rule("Targets")
    console.print(Markdown(targets_table(finished)))
    for left_out in chosen[len(finished) :]:
        console.print(f"not run: {left_out.title}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks", description=__doc__)
    add = parser.add_argument
    add("--rounds", type=int, default=_ROUNDS, help=f"interleaved rounds (default {_ROUNDS})")
    add("--list", action="store_true", help="print the titles of all scenarios, and run nothing")
    add("--only", action="append", default=[], metavar="TEXT", help="scenarios with TEXT in their title")
    add(
        "--without",
        action="append",
        default=[],
        metavar="TEXT",
        help="leave contenders with TEXT in the name out",
    )
    add(
        "--minutes",
        type=float,
        default=_MINUTES,
        help=f"begin no further scenario after this time (default {_MINUTES})",
    )
    add("--scale", type=float, default=1.0, help="times as many records (0.01: a quick trial)")
    add(
        "--page",
        type=Path,
        help="where to write the page (default: docs/benchmarks.md, after a whole run only); what the file "
        "says about other scenarios stays",
    )
    return parser


def _is_in(name: str, texts: Sequence[str]) -> bool:
    return any(text.lower() in name.lower() for text in texts)


def _without(scenario: Scenario, texts: Sequence[str]) -> Scenario:
    left = tuple(each for each in scenario.contenders if not _is_in(each.name, texts))
    return replace(scenario, contenders=left)


def _run(
    chosen: Sequence[Scenario], rounds: int, scale: float, seconds: float, console: Console
) -> Iterator[Results]:
    """Yield the results of each scenario, and print its table. No scenario begins after *seconds*."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    mirrors = any(scenario.mirrors for scenario in chosen)
    with (
        tempfile.TemporaryDirectory(prefix="pyklient-bench-", dir=machine.records_folder()) as directory,
        closing(Clusters(Path(directory), scale, mirrors=mirrors)) as clusters,
        Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console) as progress,
    ):
        deadline = time.monotonic() + seconds
        bar = progress.add_task("", total=sum(len(each.contenders) for each in chosen) * rounds)
        for scenario in chosen:
            if time.monotonic() > deadline:
                return
            progress.update(bar, description=f"data for: {scenario.title}")
            with clusters.bench_for(scenario) as bench:
                results = _rounds(bench, scenario, rounds, progress, bar)
            if scenario in SCENARIOS:
                progress.console.rule(scenario.title)
                progress.console.print(Markdown(scenario_table(results)))
            yield results


def _rounds(bench: Bench, scenario: Scenario, rounds: int, progress: Progress, bar: TaskID) -> Results:
    """Run all rounds of *scenario*, its clients in turn."""
    bench.load(scenario)
    for contender in scenario.contenders:
        bench.trial(scenario, contender)
    results = Results(scenario, {contender.name: [] for contender in scenario.contenders})
    for number in range(rounds):
        for contender in rotated(scenario.contenders, number):
            progress.update(bar, description=f"{scenario.title}: {contender.name}")
            results.runs[contender.name].append(bench.run(scenario, contender))
            progress.advance(bar)
    bench.drop(scenario)
    return results


def _facts() -> list[str]:
    return [
        *machine.facts(),
        f"Kafka {java.VERSION} (KRaft), one broker with the JVM options of Kafka's start script, unless the "
        "row names another number, and a second one to which mirrors copy",
        "topics with 4 partitions, unless the scenario names another number; each producer sends the same "
        "20,000 different records again and again (fewer if a record has 10 KB or more)",
        "each round has a different order of clients, and each client runs in its own process",
    ]


def _setups() -> list[tuple[str, str]]:
    """Return the set-up of each client, from the docstring of its module."""
    found = []
    titles = {
        "java": f"Java {java.VERSION}",
        "own_mirror": "pyklient's mirrors",
        "mirror_maker": f"MirrorMaker {mirror_maker.VERSION}",
        "own_transactions": "pyklient's transactions",
        "confluent_transactions": "confluent-kafka's transactions",
        "own_start": "pyklient's start-up",
        "confluent_start": "confluent-kafka's start-up",
    }
    peers = ("own", "confluent", "aio_kafka", "kafka_python", "java")
    for client in (*peers, *(title for title in titles if title != "java")):
        module = importlib.import_module(f"tools.benchmarks.clients.{client}")
        words = " ".join((module.__doc__ or "").split())
        found.append((titles.get(client) or machine.version(client), words))
    return found


if __name__ == "__main__":
    main()
