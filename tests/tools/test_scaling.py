"""The page of `make bench-scaling` has a row for each measurement, and gets the measured rows."""

import sys
from pathlib import Path

import pytest

from tools.repository import ROOT
from tools.scaling.__main__ import main
from tools.scaling.backpressure import SHAPES
from tools.scaling.measurements import MEASUREMENTS
from tools.scaling.page import with_rows

PAGE = (ROOT / "docs" / "benchmarks-scaling.md").read_text(encoding="utf-8")


def test_the_page_has_one_row_for_each_measurement_and_keeps_the_others() -> None:
    titles = [each.title for each in MEASUREMENTS] + [f"backpressure: {shape.title}" for shape in SHAPES]
    rows = {title: f"| {title} | 1.00 |" for title in titles}
    before, after = PAGE.splitlines(), with_rows(PAGE, rows).splitlines()
    changed = [new for old, new in zip(before, after, strict=True) if old != new]
    assert sorted(changed) == sorted(rows.values())


def test_a_row_that_the_page_lacks_is_an_error() -> None:
    with pytest.raises(ValueError, match="no row 'produce: moons'"):
        with_rows(PAGE, {"produce: moons": "| produce: moons | 1.00 |"})


def test_a_page_that_does_not_exist_is_an_error_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "argv", ["scaling", "--page", str(tmp_path / "none.md")])
    with pytest.raises(SystemExit):
        main()
    out, err = capsys.readouterr()
    assert "there is no such page" in err
    assert not out
