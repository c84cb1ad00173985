"""Writes medians, ratios and targets of a run as tables in Markdown."""

import statistics
from collections.abc import Sequence
from functools import partial

from tools.benchmarks.bench import Results
from tools.benchmarks.groups import Group
from tools.benchmarks.scenarios import TARGETS, Figure, Target
from tools.benchmarks.work import Measured

__all__ = [
    "TARGET_HEADS",
    "group_table",
    "scenario_table",
    "table",
    "target_key",
    "target_rows",
    "targets_table",
]

TARGET_HEADS = ("scenario", "client", "compared with", "target", "measured", "reached")


def scenario_table(results: Results) -> str:
    """Return the Markdown table of one scenario."""
    return table(*(_latency_rows(results) if results.scenario.rate else _rows(results)))


def targets_table(finished: Sequence[Results]) -> str:
    """Return the table of all targets whose contenders were run; "" if there are none."""
    rows = target_rows(finished)
    return table(TARGET_HEADS, rows) if rows else ""


def target_rows(finished: Sequence[Results]) -> list[list[str]]:
    """Return a row for each target whose contenders were run."""
    by_title = {results.scenario.title: results for results in finished}
    return [
        _verdict(target, results)
        for target in TARGETS
        if (results := by_title.get(target.scenario.title))
        and {target.ours, target.theirs} <= {*results.runs}
    ]


def group_table(group: Group, finished: Sequence[Results]) -> str:
    """Return the table of the scenarios of *group* that were run, with one row for each; "" if there are
    none."""
    by_title = {results.scenario.title: results for results in finished}
    rows = [
        _group_row(group, row.name, results)
        for row in group.rows
        if (results := by_title.get(row.scenario.title))
    ]
    figures = ("ms", "CPU ms") if group.per == "start" else ("records/s", "CPU µs per record", "peak MiB")
    names = [contender.name for contender in group.rows[0].scenario.contenders]
    heads = [f"{name}: {figure}" for name in names for figure in figures]
    return table(["shape", *heads, "CPU / pyklient", "time / pyklient"], rows) if rows else ""


def _group_row(group: Group, name: str, results: Results) -> list[str]:
    cells = [name]
    for contender in results.runs:
        if group.per == "start":
            cells.append(f"{results.median(contender, lambda run: run.wall_per_record_us) / 1e3:,.0f}")
            cells.append(f"{results.median(contender, lambda run: run.cpu_per_record_us) / 1e3:,.0f}")
        else:
            cells += _figures(results, contender)
    other = [*results.runs][-1]
    return [*cells, _against_first(results, other, "CPU"), _against_first(results, other, "wall")]


def _figures(results: Results, name: str) -> list[str]:
    return [
        f"{results.median(name, lambda run: run.records / run.wall):,.0f}",
        f"{results.median(name, lambda run: run.cpu_per_record_us):.3f}",
        f"{results.median(name, lambda run: run.peak_mib):,.0f}",
    ]


def _verdict(target: Target, results: Results) -> list[str]:
    ratios = results.ratios(target.theirs, target.ours, target.figure)
    return [
        *target_key(target),
        _spread(ratios),
        "yes" if statistics.median(ratios) >= target.factor else "no",
    ]


def target_key(target: Target) -> tuple[str, str, str, str]:
    """Return the cells that identify the row of *target*."""
    return target.what, target.ours, target.theirs, _words(target)


def _words(target: Target) -> str:
    """Return the words of the column "target"."""
    if target.figure == "CPU":
        return f"CPU {target.factor:g} times less"
    if target.figure in ("p50", "p99"):
        return f"{target.figure} no worse"
    if target.factor == 1:
        return "no slower"
    return f"{target.factor:g} times {'faster' if target.factor > 1 else 'as fast'}"


def _spread(ratios: Sequence[float]) -> str:
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def _against_first(results: Results, name: str, figure: Figure) -> str:
    first = results.scenario.contenders[0].name
    return "" if name == first else _spread(results.ratios(name, first, figure))


def _latency_rows(results: Results) -> tuple[list[str], list[list[str]]]:
    heads = ["client", "p50 ms", "p99 ms", "p99.9 ms", "p50 / pyklient", "p99 / pyklient"]
    return heads, [
        [
            name,
            *(
                f"{results.median(name, partial(_percentile, share=share)):.2f}"
                for share in ("p50", "p99", "p99.9")
            ),
            _against_first(results, name, "p50"),
            _against_first(results, name, "p99"),
        ]
        for name in results.runs
    ]


def _percentile(run: Measured, share: str) -> float:
    return run.percentiles_ms[share]


def _rows(results: Results) -> tuple[list[str], list[list[str]]]:
    heads = ["client", "records/s", "MB/s", "CPU µs per record", "peak MiB"]
    return [*heads, "CPU / pyklient", "time / pyklient"], [
        [
            name,
            f"{results.median(name, lambda run: run.records / run.wall):,.0f}",
            f"{results.median(name, lambda run: run.payload_bytes / run.wall / 1e6):,.0f}",
            f"{results.median(name, lambda run: run.cpu_per_record_us):.3f}",
            f"{results.median(name, lambda run: run.peak_mib):,.0f}",
            _against_first(results, name, "CPU"),
            _against_first(results, name, "wall"),
        ]
        for name in results.runs
    ]


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---", *("--:" for _ in heads[1:])], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
