"""The output of the demo: progress bars or lines, and tables at the end."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from pyklient.cli.demo.job import Outcome
from pyklient.cli.demo.job import Progress as State

__all__ = ["show_outcome", "show_progress"]

_LINE_EVERY: Final = 2.0


@contextlib.contextmanager
def show_progress(console: Console, total: int) -> Iterator[Callable[[State], None]]:
    """Yield a function that shows each new state of the demo.

    It shows progress bars on a terminal, and otherwise prints a line every two seconds.
    """
    if not console.is_terminal:
        yield _lines(console, total)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        yield _bars(progress, total)


def _bars(progress: Progress, total: int) -> Callable[[State], None]:
    produced = progress.add_task("produced", total=total)
    read = progress.add_task("read", total=total)
    readers: list[TaskID] = []

    def watch(state: State) -> None:
        progress.update(produced, completed=state.produced)
        progress.update(read, completed=sum(state.read))
        while len(readers) < len(state.read):
            readers.append(progress.add_task(f"  by reader {len(readers) + 1}", total=total))
        for task, count in zip(readers, state.read, strict=False):
            progress.update(task, completed=count)

    return watch


def _lines(console: Console, total: int) -> Callable[[State], None]:
    due = time.monotonic() + _LINE_EVERY

    def watch(state: State) -> None:
        nonlocal due
        if time.monotonic() < due:
            return
        due = time.monotonic() + _LINE_EVERY
        by_reader = " + ".join(f"{count:,}" for count in state.read)
        console.print(
            f"produced {state.produced:,} of {total:,}, read {sum(state.read):,} ({by_reader})",
            highlight=False,
        )

    return watch


def show_outcome(console: Console, outcome: Outcome, airlines: Mapping[str, str]) -> None:
    """Print the demo's counts by carrier and by partition, its rates, and its result in one sentence."""
    if not console.is_terminal:
        console = Console(file=console.file, width=120)
    console.print(_by_carrier(outcome, airlines))
    console.print(_by_partition(outcome))
    sent, read = outcome.sent.counts.total(), outcome.read.counts.total()
    by_reader = ", ".join(f"reader {index} {count:,}" for index, count in enumerate(outcome.by_reader, 1))
    console.print(
        f"produced {outcome.produce_rate:,.0f} records/s, read {outcome.read_rate:,.0f} records/s "
        f"({by_reader})\n"
        f"{sent:,} in, {read:,} out, {outcome.lost:,} lost"
        f"  ({outcome.again.total():,} delivered again, lag {outcome.lag:,})",
        highlight=False,
        style="bold green" if outcome.holds else "bold red",
    )


def _by_carrier(outcome: Outcome, airlines: Mapping[str, str]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_footer=True, pad_edge=False)
    sent, read, again = outcome.sent.counts, outcome.read.counts, outcome.again
    table.add_column("carrier", "total", no_wrap=True)
    table.add_column("", overflow="ellipsis", no_wrap=True)
    for name, counts in (("produced", sent), ("consumed", read), ("again", again)):
        table.add_column(name, f"{counts.total():,}", justify="right")
    table.add_column("content")
    for key, count in sent.most_common():
        carrier = key.decode()
        table.add_row(
            carrier,
            airlines.get(carrier, ""),
            f"{count:,}",
            f"{read[key]:,}",
            f"{again[key]:,}",
            "same" if outcome.sent.agrees(outcome.read, key) else "[red]differs[/red]",
        )
    return table


def _by_partition(outcome: Outcome) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("partition", "end offset", "committed", "lag"):
        table.add_column(column, justify="right")
    for tp, lag in sorted(outcome.lags.items()):
        table.add_row(str(tp.partition), f"{lag.end:,}", f"{lag.committed or 0:,}", f"{lag.lag:,}")
    return table
