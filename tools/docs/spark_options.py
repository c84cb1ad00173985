"""Writes the tables of options in docs/spark-options.md from the code.

``python -m tools.docs.spark_options`` writes them into the page; a test compares them.
"""

import re

from pyklient.spark.options import OPTIONS, SparkOption, Use
from tools.repository import ROOT

__all__ = ["PAGE", "filled"]

PAGE = ROOT / "docs" / "spark-options.md"

_PLACE = re.compile(r"(<!-- options: (source|sink) -->\n).*?(<!-- end -->)", re.DOTALL)
_USES = {"source": {Use.BATCH, Use.STREAM}, "sink": {Use.SINK}}


def filled(text: str) -> str:
    """Return the page *text* with new tables."""
    return _PLACE.sub(lambda found: f"{found[1]}{_table(_USES[found[2]])}{found[3]}", text)


def _table(uses: set[Use]) -> str:
    columns = ["option", "default", "meaning"] if len(uses) == 1 else ["option", "for", "default", "meaning"]
    rows = [
        columns,
        ["---"] * len(columns),
        *(_cells(option, uses) for option in OPTIONS if uses & option.uses),
    ]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


def _cells(option: SparkOption, uses: set[Use]) -> list[str]:
    given = [] if len(uses) == 1 else [", ".join(use for use in Use if use in option.uses & uses)]
    return [f"`{option.name}`", *given, option.default, option.meaning.replace("|", "\\|")]


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
