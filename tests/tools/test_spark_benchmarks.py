"""The page says what was measured, and whether that is enough."""

from tools.spark.benchmarks.report import page, table
from tools.spark.benchmarks.scenarios import SCENARIOS


def test_a_target_is_reached_by_the_median_of_the_ratios() -> None:
    scenario = SCENARIOS[0]
    enough = table({0: {scenario.ours: [1.0, 1.0, 4.0], scenario.theirs: [2.0, 3.0, 4.0]}}, 1.0)
    assert "2.00 (1.00 to 3.00) | yes |" in enough
    assert f"{scenario.rows:,}" in enough
    short = table({0: {scenario.ours: [1.0, 1.0, 4.0], scenario.theirs: [1.9, 3.0, 4.0]}}, 1.0)
    assert "1.90 (1.00 to 3.00) | no |" in short


def test_the_page_has_the_machine_and_every_job_that_was_run() -> None:
    found = {
        number: {scenario.ours: [1.0], scenario.theirs: [2.0]} for number, scenario in enumerate(SCENARIOS)
    }
    written = page(found, ["one machine"])
    assert "- one machine" in written
    assert all(scenario.title in written for scenario in SCENARIOS)
