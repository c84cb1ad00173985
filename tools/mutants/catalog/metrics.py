"""Mistakes in ``pyklient/metrics/``."""

from typing import Final

from tools.mutants.mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS: Final = (
    Mutant(
        "metrics: a rate is that of the time since the last mark",
        "pyklient/metrics/counters.py",
        "if start - _PERIOD <= mark.time <= start), None)",
        "if mark.time <= total.time), None)",
        ("tests/metrics/test_counters.py::test_a_rate_counts_what_was_added_in_the_last_30_to_35_seconds",),
    ),
    Mutant(
        "metrics: old durations stay in the quantiles",
        "pyklient/metrics/counters.py",
        "recent = now < self._ends + _WINDOW",
        "recent = True",
        (
            "tests/metrics/test_counters.py"
            "::test_quantiles_forget_what_is_older_than_a_minute_and_totals_do_not",
        ),
    ),
)
