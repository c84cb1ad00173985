"""Draws the cost of a record against its shape as SVG, for docs/benchmarks.md."""

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from tools.benchmarks.bench import Results
from tools.benchmarks.groups import Group

__all__ = ["draw"]

_PANELS = ("produce", "consume")
_STYLES = (("#1f6fb4", "o"), ("#c8502d", "s"))


def draw(group: Group, finished: Sequence[Results], path: Path) -> None:
    """Draw the CPU time of a record against the axis of *group*: one panel for the producers, and one for the
    consumers. Bars show the smallest and largest figure of all rounds."""
    by_title = {results.scenario.title: results for results in finished}
    with mpl.rc_context(
        {"svg.hashsalt": "pyklient", "svg.fonttype": "none"}
    ):  # the same for the same figures
        figure = Figure(figsize=(9, 3.6), layout="constrained")
        for axes, task in zip(figure.subplots(1, len(_PANELS), sharey=True), _PANELS, strict=True):
            rows = [row for row in group.rows if row.name.startswith(task)]
            points = [(row.x, by_title[row.scenario.title]) for row in rows]
            _panel(axes, f"{task} 100 B", group.axis, points)
        path.parent.mkdir(exist_ok=True)
        figure.savefig(path, format="svg", metadata={"Date": None})


def _panel(axes: Axes, title: str, axis: str, points: Sequence[tuple[int, Results]]) -> None:
    places = [x for x, _ in points]
    for name, (colour, marker) in zip(points[0][1].runs, _STYLES, strict=True):
        costs = [[run.cpu_per_record_us for run in results.runs[name]] for _, results in points]
        middle = [results.median(name, lambda run: run.cpu_per_record_us) for _, results in points]
        spread = [
            [value - min(each) for value, each in zip(middle, costs, strict=True)],
            [max(each) - value for value, each in zip(middle, costs, strict=True)],
        ]
        axes.errorbar(places, middle, spread, color=colour, marker=marker, capsize=3, label=name)
    axes.set(title=title, xlabel=axis, ylabel="CPU µs per record", xscale="log", yscale="log")
    axes.set_xticks(places, [f"{place:,}" for place in places])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend()
