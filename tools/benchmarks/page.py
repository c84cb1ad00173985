"""Writes docs/benchmarks.md from the results of a run. Sections of other scenarios stay unchanged."""

import re
from collections.abc import Iterable, Sequence

from tools.benchmarks.bench import Results
from tools.benchmarks.groups import Group
from tools.benchmarks.report import (
    TARGET_HEADS,
    group_table,
    scenario_table,
    table,
    target_key,
    target_rows,
)
from tools.benchmarks.scenarios import CONSUME, PRODUCE, SCENARIOS, TARGETS
from tools.benchmarks.shapes import GROUPS, START_UP
from tools.benchmarks.work import Measured

__all__ = ["IMAGES", "page", "whole_groups"]

IMAGES = "benchmarks"
"""The folder of the charts, beside the page."""

_SETTINGS = "Settings of each client"
_SHAPES_TITLE = "Records of many shapes"
_CHARTED = (PRODUCE, CONSUME)

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
| records/s | Records per second. For a producer, the time runs from the confirmation of the first record \
to the confirmation of the last one. For a consumer, it runs from the moment when the program gets the \
first records to the moment when it gets the last ones. For a mirror, it runs from the first copy to the \
last one. |
| MB/s | Megabytes of values per second, in the same time. |
| CPU µs per record | The processor time of the client's process, with all its threads, from the creation \
of the client to its end, divided by the number of records. |
| peak MiB | The largest memory that the client's process used. |
| CPU / pyklient | The ratio of "CPU µs per record". 2 means that the client needed twice as much CPU time \
as pyklient in the first row of the table. |
| time / pyklient | The ratio of the times per record. 2 means that the client took twice as long as \
pyklient in the first row of the table. |
| p50 ms, p99 ms, p99.9 ms | Latencies in milliseconds: 50 %, 99 % and 99.9 % of the records were confirmed \
within this time. The time begins when the program is meant to send the record. If the program sends it \
late, because the client has delayed the record before it, this delay counts too. |
| p50 / pyklient, p99 / pyklient | The ratios of "p50 ms" and of "p99 ms". 2 means that the latency was \
twice that of pyklient. |

Every producer has `acks=all`, unless its row says something else, and every program checks that each record
was confirmed. After each run of a producer, the benchmark asks the broker how many records it has stored.
Every consumer counts its records.

The name of a scenario contains the size of a record's value. 100 B and 1 KiB are random bytes. A flight as
JSON has about 300 bytes.

The figures on this page come from this machine:"""

_SHAPES = """\
The tables below compare pyklient with confluent-kafka, the fastest of the other clients, on records of many
shapes. The CPU time of a producer begins when its first record is confirmed. The CPU time of a consumer
begins with its creation, because it fetches many records before the program gets the first."""

_TARGETS = """\
A target is what pyklient is meant to reach. "CPU 5 times less" is about the CPU time per record, "2 times
faster" about the time per record, and "p99 no worse" about the latency. Values have 100 B if the scenario
names no size. Mirrors copy flights as JSON. The column "measured" shows the other client's figure divided by
pyklient's, so a larger number is better for pyklient. A target is reached if the median of these ratios is at
least the number in the target, or at least 1 for "no worse" and "no slower". The target "0.8 times as
fast" allows a mirror 1.25 times the time of a producer alone, because the mirror also reads."""


def page(
    finished: Sequence[Results],
    facts: Iterable[str],
    setups: Iterable[tuple[str, str]],
    when: str,
    old: str = "",
) -> str:
    """Return the whole page: facts, targets, charts, a table for each scenario, settings of each client.

    *when* says when the scenarios in *finished* were run. What *old*, the page before, says about other
    scenarios stays.
    """
    kept = _sections(old)
    sections = {"Targets": _targets(finished, kept.get("Targets", ""))}
    by_title = {results.scenario.title: results for results in finished}
    for scenario in SCENARIOS:
        if (results := by_title.get(scenario.title)) is not None:
            sections[scenario.title] = f"{when}\n\n{scenario_table(results)}"
        elif scenario.title in kept:
            sections[scenario.title] = kept[scenario.title]
    whole = whole_groups(finished)
    if any(group in whole or group.title in kept for group in GROUPS):
        sections[_SHAPES_TITLE] = _SHAPES
    for group in GROUPS:
        if group in whole:
            sections[group.title] = _group(group, finished, when)
        elif group.title in kept:
            sections[group.title] = kept[group.title]
    shown = [
        (name, text) for name, text in setups if START_UP in sections or not name.endswith(START_UP.lower())
    ]
    sections[_SETTINGS] = "\n\n".join(f"### {name}\n\n{text}" for name, text in shown)
    beginning = f"{_HEAD}\n\n" + "\n".join(f"- {fact}" for fact in facts)
    return "\n\n".join([beginning, *(f"## {title}\n\n{text}" for title, text in sections.items())]) + "\n"


def whole_groups(finished: Sequence[Results]) -> list[Group]:
    """Return the groups of shapes of which all scenarios were run."""
    titles = {results.scenario.title for results in finished}
    return [group for group in GROUPS if {row.scenario.title for row in group.rows} <= titles]


def _sections(text: str) -> dict[str, str]:
    """Return the sections of a page by their titles."""
    pairs = (part.partition("\n") for part in text.split("\n## ")[1:])
    return {title: body.strip() for title, _, body in pairs}


def _group(group: Group, finished: Sequence[Results], when: str) -> str:
    parts = [f"{group.words} {when}"]
    if group.axis:
        text = f"CPU time per record by {group.axis}"
        parts.append(f"![{text}]({IMAGES}/{group.image})")
    return "\n\n".join([*parts, group_table(group, finished)])


def _targets(finished: Sequence[Results], old: str) -> str:
    """Return the section with all targets and the charts."""
    lines = [line for line in old.splitlines() if line.startswith("| ")][2:]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    rows = {tuple(row[:4]): row for row in (*cells, *target_rows(finished))}
    known = [rows[key] for target in TARGETS if (key := target_key(target)) in rows]
    by_title = {results.scenario.title: results for results in finished}
    charts = [
        _chart(by_title[each.title]) if each.title in by_title else _old_chart(each.title, old)
        for each in _CHARTED
    ]
    return "\n\n".join([_TARGETS, table(TARGET_HEADS, known), *filter(None, charts)])


def _old_chart(title: str, old: str) -> str:
    blocks: list[str] = re.findall(r"```mermaid\n.*?```", old, re.DOTALL)
    return next((block for block in blocks if f'title "{title}:' in block), "")


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
