"""Medians and ratios of a run: on the terminal, and as docs/benchmarks.md."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tests.benchmarks.scenarios import Scenario
from tests.benchmarks.work import Measured

__all__ = ["Results", "markdown"]


@dataclass
class Results:
    """All runs of one scenario: a list a client, one entry a round, in the order of the rounds."""

    scenario: Scenario
    runs: dict[str, list[Measured]]

    def median(self, client: str, figure: Callable[[Measured], float]) -> float:
        return statistics.median(figure(run) for run in self.runs[client])

    def ratio(self, client: str, figure: Callable[[Measured], float], base: str = "pyklient") -> str:
        """*client* against *base*, round by round: the median, and the spread behind it."""
        pairs = [
            figure(theirs) / figure(ours)
            for theirs, ours in zip(self.runs[client], self.runs[base], strict=True)
            if figure(ours)
        ]
        if not pairs:
            return ""
        return f"{statistics.median(pairs):.2f} ({min(pairs):.2f} to {max(pairs):.2f})"


_SHARES = (0.5, 0.99, 0.999)


def _percentile(run: Measured, share: float) -> float:
    ordered = sorted(run.latencies_ms)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def _rows(results: Results) -> tuple[list[str], list[list[str]]]:
    if results.scenario.rate:
        heads = ["client", "p50 ms", "p99 ms", "p99.9 ms", "p99 against pyklient"]
        return heads, [
            [
                client,
                *(f"{results.median(client, partial(_percentile, share=share)):.2f}" for share in _SHARES),
                results.ratio(client, lambda run: _percentile(run, 0.99)),
            ]
            for client in results.runs
        ]
    heads = [
        "client",
        "records/s",
        "MB/s",
        "CPU µs/record",
        "peak MiB",
        "CPU against pyklient",
        "wall against pyklient",
    ]
    return heads, [
        [
            client,
            f"{results.median(client, lambda run: run.records_per_second):,.0f}",
            f"{results.median(client, lambda run: run.payload_bytes / run.wall / 1e6):,.0f}",
            f"{results.median(client, lambda run: run.cpu_per_record_us):.3f}",
            f"{results.median(client, lambda run: run.peak_mib):,.0f}" if client != "java" else "",
            results.ratio(client, lambda run: run.cpu_per_record_us),
            results.ratio(client, lambda run: run.wall / run.records),
        ]
        for client in results.runs
    ]


def table(results: Results) -> str:
    """One scenario as a Markdown table."""
    heads, rows = _rows(results)
    lines = [heads, ["---", *("--:" for _ in heads[1:])], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def markdown(all_results: Sequence[Results], facts: Sequence[str], setups: Sequence[tuple[str, str]]) -> str:
    """The whole page: the facts of the run, how each client was set up, then a table a scenario."""
    parts = [
        "# Benchmarks",
        "Written by `make bench`. Every client ran on the same broker in the same run, one after another,\n"
        "in interleaved rounds. Compare ratios within this page, not figures between machines: a ratio is\n"
        "the median over the rounds, with the smallest and largest in brackets. CPU is the client's own\n"
        "process with all its threads (Java: with the start of its JVM). Every delivery is confirmed and\n"
        "every record counted.",
        "\n".join(f"- {fact}" for fact in facts),
        "## How each client is set up",
        "\n".join(f"- **{name}**: {text}" for name, text in setups),
    ]
    for results in all_results:
        parts += [f"## {results.scenario.title[0].upper()}{results.scenario.title[1:]}", table(results)]
    return "\n\n".join(parts) + "\n"
