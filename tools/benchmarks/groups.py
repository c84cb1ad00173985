"""Groups of scenarios. A group is one table of the page, with a row for each scenario, and may be a chart."""

from dataclasses import dataclass
from typing import Literal

from tools.benchmarks.scenarios import Scenario

__all__ = ["Group", "Row"]


@dataclass(frozen=True)
class Row:
    """A scenario of a group, its name there, and its place on the chart."""

    name: str
    scenario: Scenario
    x: int = 0


@dataclass(frozen=True)
class Group:
    """A table of scenarios. ``axis`` names what grows from row to row of a chart; "" means no chart. ``per``
    is what one run counts."""

    title: str
    words: str
    rows: tuple[Row, ...]
    axis: str = ""
    per: Literal["record", "start"] = "record"

    @property
    def image(self) -> str:
        """The name of the chart's file."""
        return f"{self.title.lower().replace(' ', '-')}.svg"
