"""Writes medians, ratios and targets of a run as Markdown, for the terminal and for docs/benchmarks.md."""

import statistics
from collections.abc import Iterable, Sequence
from functools import partial

from tools.benchmarks.bench import Results
from tools.benchmarks.scenarios import CONSUME, PRODUCE, TARGETS, Figure, Target
from tools.benchmarks.work import Measured

__all__ = ["page", "scenario_table", "targets_table"]

_HEAD = """\
# Benchmarks

This page compares pyklient with other clients. `make bench` measures the figures and writes the page. It
starts a Kafka broker and runs each scenario, such as "Produce, 100 B", in several rounds. In a round, each
client runs once, one client after another.

The speed of a client depends on the machine, so compare clients by their ratios. A ratio is a client's figure
divided by pyklient's figure in the same round. A cell with a ratio shows the median of the rounds, and in
brackets the smallest and the largest ratio. All other cells show the median of the rounds. The median of the
ratios can differ a lot from the ratio of the medians, if the rounds differ a lot.

The tables of the scenarios have these columns:

| column | meaning |
| --- | --- |
| records/s | Records per second. For a producer, the time is that from the confirmation of the first record \
to the confirmation of the last one. For a consumer, it is the time from the first records that the program \
gets to the last ones. A mirror counts as a producer. |
| MB/s | Megabytes of values per second, in the same time. |
| CPU µs per record | The processor time of the client's process, with all its threads, from the creation of \
the client to its end, divided by the number of records. |
| peak MiB | The largest memory that the client's process used. |
| CPU / pyklient | The ratio of "CPU µs per record". 2 means that the client needed twice as much CPU time \
as pyklient in the first row of the table. |
| time / pyklient | The ratio of the times per record. 2 means that the client took twice as long as \
pyklient in the first row of the table. |
| p50 ms, p99 ms, p99.9 ms | Latencies in milliseconds: 50 %, 99 % and 99.9 % of the records were confirmed \
within this time. The time begins when the program is meant to send the record. If the program sends it \
late, because the client has delayed the record before it, this delay counts too. |
| p99 / pyklient | The ratio of "p99 ms". |

Every producer has `acks=all`, and every program checks that each record was confirmed. After each run of a
producer, the benchmark asks the broker how many records it has stored. Every consumer counts its records.

The name of a scenario contains the size of a record's value. 100 B and 1 KiB are random bytes. A flight as
JSON has about 300 bytes.

The figures on this page come from this machine:"""

_TARGETS = """\
A target is what pyklient is meant to reach. "CPU 5 times less" is about the CPU time per record, "2 times
faster" about the time per record, and "p99 no worse" about the latency. Values have 100 B if the scenario
names no size. Mirrors copy flights as JSON. The column "measured" shows the other client's figure divided by
pyklient's, so a larger number is better for pyklient. A target is reached if the median of these ratios is at
least the number in the target, or at least 1 for "p99 no worse" and "no slower". "0.8 times as fast" is about
a mirror compared with a producer alone. The mirror also reads, so it may take up to 1.25 times as long."""


def scenario_table(results: Results) -> str:
    """Return the Markdown table of one scenario."""
    return _table(*(_latency_rows(results) if results.scenario.rate else _rows(results)))


def targets_table(finished: Sequence[Results]) -> str:
    """Return the table of all targets whose contenders were run; "" if there are none."""
    by_title = {results.scenario.title: results for results in finished}
    rows = [
        _verdict(target, results)
        for target in TARGETS
        if (results := by_title.get(target.scenario.title))
        and {target.ours, target.theirs} <= {*results.runs}
    ]
    heads = ["scenario", "client", "compared with", "target", "measured", "reached"]
    return _table(heads, rows) if rows else ""


def page(finished: Sequence[Results], facts: Iterable[str], setups: Iterable[tuple[str, str]]) -> str:
    """Return the whole page: facts, targets, charts, a table for each scenario, settings of each client."""
    parts = [_HEAD, "\n".join(f"- {fact}" for fact in facts), "## Targets", _TARGETS, targets_table(finished)]
    parts += [
        _chart(results) for results in finished if results.scenario.title in (PRODUCE.title, CONSUME.title)
    ]
    for results in finished:
        parts += [f"## {results.scenario.title}", scenario_table(results)]
    parts += ["## Settings of each client", "\n\n".join(f"### {name}\n\n{text}" for name, text in setups)]
    return "\n\n".join(parts) + "\n"


def _verdict(target: Target, results: Results) -> list[str]:
    ratios = results.ratios(target.theirs, target.ours, target.figure)
    return [
        target.what,
        target.ours,
        target.theirs,
        _words(target),
        _spread(ratios),
        "yes" if statistics.median(ratios) >= target.factor else "no",
    ]


def _words(target: Target) -> str:
    """Return the words of the column "target"."""
    if target.figure == "CPU":
        return f"CPU {target.factor:g} times less"
    if target.figure == "p99":
        return "p99 no worse"
    if target.factor == 1:
        return "no slower"
    return f"{target.factor:g} times {'faster' if target.factor > 1 else 'as fast'}"


def _spread(ratios: Sequence[float]) -> str:
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def _against_first(results: Results, name: str, figure: Figure) -> str:
    first = results.scenario.contenders[0].name
    return "" if name == first else _spread(results.ratios(name, first, figure))


def _latency_rows(results: Results) -> tuple[list[str], list[list[str]]]:
    heads = ["client", "p50 ms", "p99 ms", "p99.9 ms", "p99 / pyklient"]
    return heads, [
        [
            name,
            *(
                f"{results.median(name, partial(_percentile, share=share)):.2f}"
                for share in ("p50", "p99", "p99.9")
            ),
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


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---", *("--:" for _ in heads[1:])], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _chart(results: Results) -> str:
    """Return a chart of the records for each second of CPU time."""
    names = ", ".join(f'"{name.replace("`", "")}"' for name in results.runs)
    thousands = (round(1e3 / results.median(name, _cpu)) for name in results.runs)
    return "\n".join(
        [
            "```mermaid",
            "xychart-beta horizontal",
            f'    title "{results.scenario.title}: thousands of records per second of CPU time"',
            f"    x-axis [{names}]",
            '    y-axis "thousands of records"',
            f"    bar [{', '.join(map(str, thousands))}]",
            "```",
        ]
    )


def _cpu(run: Measured) -> float:
    return run.cpu_per_record_us
