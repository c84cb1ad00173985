"""`make bench`: starts real Kafka, runs every client in rounds, prints the ratios and writes the page."""

import argparse
import importlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.markdown import Markdown
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from tests.servers.java import SERVER_JVM
from tests.servers.kafka import KraftCluster
from tests.servers.reaper import Reaper
from tools.benchmarks import machine
from tools.benchmarks.bench import Bench, Results, rotated
from tools.benchmarks.clients import java, mirror_maker
from tools.benchmarks.report import page, scenario_table, targets_table
from tools.benchmarks.scenarios import SCENARIOS, Scenario
from tools.docs import benchmark_row

_PAGE = benchmark_row.BENCHMARKS
_BROKER = {
    "num.io.threads": 8,  # these two have Kafka's defaults, unlike the brokers of tests
    "num.network.threads": 3,
    "log.segment.delete.delay.ms": 1_000,  # deleted before they are written to the disk
}
_ROUNDS = 5


def main() -> None:
    options = _parser().parse_args()
    if options.list:
        print("\n".join(each.title for each in SCENARIOS))
        return
    chosen = [
        _without(each, options.without) for each in SCENARIOS if _is_in(each.title, options.only or [""])
    ]
    if not chosen:
        raise SystemExit("no such scenario; there are: " + "; ".join(each.title for each in SCENARIOS))
    console = Console()
    finished = _run(chosen, options.rounds, options.scale, console)
    console.rule("Targets")
    console.print(Markdown(targets_table(finished)))
    is_whole = not options.only and not options.without and options.scale == 1
    target = options.page or (_PAGE if is_whole else None)
    if target:
        target.write_text(page(finished, _facts(options.rounds), _setups()), encoding="utf-8")
        if target == _PAGE:
            benchmark_row.write()
        console.print(f"written: {target}")


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
    add("--scale", type=float, default=1.0, help="times as many records (0.01: a quick trial)")
    add(
        "--page",
        type=Path,
        help="where to write the page (default: docs/benchmarks.md, after a whole run only)",
    )
    return parser


def _is_in(name: str, texts: Sequence[str]) -> bool:
    return any(text.lower() in name.lower() for text in texts)


def _without(scenario: Scenario, texts: Sequence[str]) -> Scenario:
    left = tuple(each for each in scenario.contenders if not _is_in(each.name, texts))
    return replace(scenario, contenders=left)


def _run(chosen: Sequence[Scenario], rounds: int, scale: float, console: Console) -> list[Results]:
    reaper = Reaper()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with (
        tempfile.TemporaryDirectory(prefix="pyklient-bench-") as directory,
        Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console) as progress,
    ):
        needed = 2 if any(scenario.mirrors for scenario in chosen) else 1
        folders = [Path(directory, str(number)) for number in range(needed)]
        brokers = [_broker(folder, reaper) for folder in folders]
        try:
            for broker in brokers:
                broker.start()
            bench = Bench(brokers[0].bootstrap_servers, scale, brokers[-1].bootstrap_servers)
            finished = list(_rounds(bench, chosen, rounds, progress))
            bench.close()
        finally:
            for broker in brokers:
                broker.stop()
            reaper.close()
    return finished


def _broker(folder: Path, reaper: Reaper) -> KraftCluster:
    folder.mkdir()
    return KraftCluster(folder, reaper, settings=_BROKER, heap="1g", jvm=SERVER_JVM)


def _rounds(bench: Bench, chosen: Sequence[Scenario], rounds: int, progress: Progress) -> Iterator[Results]:
    """Run all rounds of all scenarios, the clients of each in turn, and print the table of each scenario."""
    trials = {contender: scenario for scenario in chosen for contender in scenario.contenders}
    bar = progress.add_task("", total=sum(len(each.contenders) for each in chosen) * rounds)
    for scenario in chosen:
        progress.update(bar, description=f"data for: {scenario.title}")
        bench.load(scenario)
    for contender, scenario in trials.items():
        progress.update(bar, description=f"trial: {contender.name}, {contender.task}")
        bench.trial(scenario, contender)
    for scenario in chosen:
        results = Results(scenario, {contender.name: [] for contender in scenario.contenders})
        for number in range(rounds):
            for contender in rotated(scenario.contenders, number):
                progress.update(bar, description=f"{scenario.title}: {contender.name}")
                results.runs[contender.name].append(bench.run(scenario, contender))
                progress.advance(bar)
        bench.drop(scenario)
        progress.console.rule(scenario.title)
        progress.console.print(Markdown(scenario_table(results)))
        yield results


def _facts(rounds: int) -> list[str]:
    return [
        *machine.facts(),
        f"Kafka {java.VERSION} (KRaft), one broker with the JVM options of Kafka's start script, and "
        "a second one to which mirrors copy",
        "topics with 4 partitions; each producer sends the same 20,000 different records again and again",
        f"{rounds} rounds, each with a different order of clients; each client runs in its own process",
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
    }
    peers = ("own", "confluent", "aio_kafka", "kafka_python", "java")
    for client in (*peers, "own_mirror", "mirror_maker", "own_transactions", "confluent_transactions"):
        module = importlib.import_module(f"tools.benchmarks.clients.{client}")
        words = " ".join((module.__doc__ or "").split())
        found.append((titles.get(client) or machine.version(client), words))
    return found


if __name__ == "__main__":
    main()
