"""Rates and quantiles, compared with those that are computed from all single values."""

import sys

import pytest

from pyklient.metrics.counters import DurationHistogram, Meter
from tests.run.seed import dice

_WINDOW = 30.0
_ERROR = 0.0626
"""The half of a bucket, as a part of its lower end."""


def histogram_of(values: list[tuple[float, float]]) -> DurationHistogram:
    """Return a histogram of *values*, which are pairs of a time and a duration."""
    made = DurationHistogram()
    for at, seconds in values:
        made.add(seconds, at)
    return made


@pytest.mark.parametrize("every", [0.01, 1.0, 4.9, 7.0])
def test_the_rate_of_a_steady_flow_is_that_of_the_flow_at_any_time(every: float) -> None:
    meter, now = Meter(1000.0), 1000.0
    for count in range(int(200 / every)):
        now = 1000.0 + count * every
        meter.add(10, 500, now)
        if now > 1040:
            found = meter.snapshot(now)
            # The window begins or ends between two batches, so that one batch more or less is in it.
            assert found.records_per_second == pytest.approx(10 / every, abs=10 / _WINDOW * 1.01)
            assert found.bytes_per_second == pytest.approx(found.records_per_second * 50)
            assert found.batches_per_second == pytest.approx(found.records_per_second / 10)


def test_a_rate_counts_what_was_added_in_the_last_30_to_35_seconds() -> None:
    meter, now, numbers = Meter(0.0), 100.0, dice("rates")
    added: list[tuple[float, int]] = []
    for _ in range(3000):
        now += numbers.choice([0.001, 0.1, 3.0, 20.0, 40.0])
        meter.add(records := numbers.randrange(1000), 1, now)
        added.append((now, records))
        asked = now + numbers.choice([0.0, 2.0, 29.0, 100.0])
        window = [sum(n for at, n in added if at > asked - width - 1e-6) for width in (_WINDOW, _WINDOW + 5)]
        found = meter.snapshot(asked).records_per_second
        assert window[0] / (_WINDOW + 5) <= found + 1e-6
        assert found <= window[1] / _WINDOW + 1e-6
    assert meter.snapshot(now).records == sum(n for _, n in added)


def test_the_rates_of_a_new_client_are_over_its_life_of_one_second_at_least() -> None:
    meter = Meter(50.0)
    assert meter.snapshot(50.0).records_per_second == 0
    meter.add(100, 1000, 50.1)
    assert meter.snapshot(50.2).records_per_second == 100
    assert meter.snapshot(54.0).records_per_second == 25
    assert meter.snapshot(500.0).records_per_second == 0


def test_what_a_slow_loop_has_read_of_one_batch_counts_where_it_was_read() -> None:
    meter = Meter(0.0)
    meter.add_evenly(30_000, 3_000_000, 100.0, 400.0)  # a hundred records a second
    found = meter.snapshot(400.0)
    assert (found.batches, found.records, found.bytes) == (1, 30_000, 3_000_000)
    assert found.records_per_second == pytest.approx(100, rel=0.01)
    assert found.bytes_per_second == pytest.approx(10_000, rel=0.01)
    meter.add_evenly(500, 0, 400.0, 405.0)
    assert meter.snapshot(405.0).records_per_second == pytest.approx(100, rel=0.01)
    assert meter.snapshot(405.0).batches == 1


@pytest.mark.parametrize("scale", [1e-5, 1e-3, 0.2, 30.0])
def test_quantiles_are_off_by_half_a_bucket_at_most(scale: float) -> None:
    numbers = dice("quantiles", scale)
    values = [numbers.lognormvariate(0, 1) * scale for _ in range(5000)]
    made = histogram_of([(100.0, each) for each in values])
    found = DurationHistogram.snapshot([made], 101.0)
    values.sort()
    assert found.p50 == pytest.approx(values[2499], rel=_ERROR)
    assert found.p99 == pytest.approx(values[4949], rel=_ERROR)
    assert found.max == values[-1]
    assert found.count == 5000
    assert found.total == pytest.approx(sum(values))


def test_quantiles_forget_what_is_older_than_a_minute_and_totals_do_not() -> None:
    made = histogram_of([(100.0, 5.0), (129.0, 1.0), (131.0, 0.5)])
    assert DurationHistogram.snapshot([made], 140.0).max == 5.0
    made.add(0.25, 165.0)
    found = DurationHistogram.snapshot([made], 166.0)
    assert found.max == 0.5
    assert (found.count, found.total) == (4, 6.75)
    late = DurationHistogram.snapshot([made], 300.0)
    assert (late.count, late.p50, late.max) == (4, None, None)
    made.add(2.0, 300.0)
    assert DurationHistogram.snapshot([made], 300.0).p50 == 2.0


def test_the_quantiles_of_several_histograms_are_those_of_all_values() -> None:
    fast = histogram_of([(10.0, 0.001)] * 98)
    slow = histogram_of([(10.0, 1.0)] * 2)
    found = DurationHistogram.snapshot([fast, slow], 10.0)
    assert found.p50 == pytest.approx(0.001, rel=_ERROR)
    assert found.p99 == pytest.approx(1.0, rel=_ERROR)
    assert found.count == 100


def test_a_duration_of_zero_counts_as_shorter_than_all_others() -> None:
    made = histogram_of([(10.0, 0.0)] * 60 + [(10.0, 1.0)] * 40)
    found = DurationHistogram.snapshot([made], 10.0)
    assert found.p50 is not None
    assert found.p50 < 1e-4
    assert found.p99 == pytest.approx(1.0, rel=_ERROR)


@pytest.mark.parametrize("seconds", [0.0, 1e-9, 1e9])
def test_durations_beyond_all_buckets_count(seconds: float) -> None:
    found = DurationHistogram.snapshot([histogram_of([(1.0, seconds)])], 1.0)
    assert (found.count, found.max) == (1, seconds)


def test_durations_that_are_added_together_count_as_one_after_the_other() -> None:
    random = dice(7)
    together, alone = DurationHistogram(), DurationHistogram()
    for now in (10.0, 35.0, 50.0, 300.0):
        durations = [random.expovariate(100) for _ in range(random.randrange(50))]
        together.add_all(durations, now)
        for seconds in durations:
            alone.add(seconds, now)
        found = DurationHistogram.snapshot([together], now)
        expected = DurationHistogram.snapshot([alone], now)
        assert found.total == pytest.approx(expected.total)
        assert found.count == expected.count
        assert (found.p50, found.p99, found.max) == (expected.p50, expected.p99, expected.max)


def test_counters_do_not_grow() -> None:
    meter, made = Meter(0.0), DurationHistogram()

    def size() -> int:
        sets = [made._buckets, made._before or []]
        return sys.getsizeof(meter._marks) + sum(map(sys.getsizeof, sets))

    for second in range(200):
        meter.add(1, 1, float(second))
        made.add(0.1, float(second))
    before = size()
    for second in range(200, 5000):
        meter.add(1, 1, float(second))
        made.add(0.1, float(second))
    assert size() == before
    assert len(meter._marks) <= 8
