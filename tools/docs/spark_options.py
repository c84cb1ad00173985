"""Writes the tables of options in docs/spark.md from the code.

``python -m tools.docs.spark_options`` writes them into the page; a test compares them.
"""

import re

from pyklient.spark.options import OPTIONS, SparkOption, Use
from tools.repository import ROOT

__all__ = ["PAGE", "filled"]

PAGE = ROOT / "docs" / "spark.md"

_PLACE = re.compile(r"(<!-- options: (source|sink) -->\n).*?(<!-- end -->)", re.DOTALL)
_USES = {"source": {Use.BATCH, Use.STREAM}, "sink": {Use.SINK}}


def filled(text: str) -> str:
    """Return the page *text* with new tables."""
    return _PLACE.sub(lambda found: f"{found[1]}{_table(_USES[found[2]])}{found[3]}", text)


def _table(uses: set[Use]) -> str:
    rows = [_row(option, uses) for option in OPTIONS if uses & option.uses]
    return "| option | for | default | meaning |\n| --- | --- | --- | --- |\n" + "".join(rows)


def _row(option: SparkOption, uses: set[Use]) -> str:
    given = ", ".join(use for use in Use if use in option.uses & uses)
    meaning = option.meaning.replace("|", "\\|")
    return f"| `{option.name}` | {given} | {option.default} | {meaning} |\n"


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
