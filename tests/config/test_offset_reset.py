"""Durations of ``auto_offset_reset``, as java.time.Duration reads them."""

from datetime import timedelta
from typing import Any

import pytest

from pyklient.config import ConsumerConfig
from pyklient.config.offset_reset import duration_of
from pyklient.errors import ConfigurationError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("PT1H", 3600),
        ("pt1h", 3600),
        ("P2D", 172_800),
        ("P1DT2H3M4.5S", 93_784.5),
        ("PT15M", 900),
        ("PT0S", 0),
        ("PT0.001S", 0.001),
        ("PT1.S", 1),
    ],
)
def test_a_duration_is_read_as_java_reads_it(text: str, seconds: float) -> None:
    assert duration_of(f"by_duration:{text}") == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", ["", "P", "PT", "P1DT", "1h", "PT-1H", "-PT1H", "P1Y", "P1W", "PT1H1D", "P99999999999999D"]
)
def test_what_is_no_duration_is_an_error_that_shows_one(text: str) -> None:
    wrong: Any = {"bootstrap_servers": "localhost:1", "auto_offset_reset": f"by_duration:{text}"}
    with pytest.raises(ConfigurationError, match="'none', 'by_duration:PT1H'"):
        ConsumerConfig.from_options(wrong)


def test_other_values_have_no_duration() -> None:
    assert duration_of("earliest") is None
    assert duration_of("PT1H") is None
