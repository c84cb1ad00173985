"""The pause before the next try: twice as long each time, up to a limit, with some jitter."""

import pytest

from pyklient.net.backoff import Backoff


@pytest.mark.parametrize(
    ("failures", "pause"), [(1, 0.1), (2, 0.2), (3, 0.4), (4, 0.8), (5, 1.0), (1000, 1.0)]
)
def test_pauses_double_up_to_the_longest_with_a_fifth_more_or_less(failures: int, pause: float) -> None:
    backoff = Backoff(0.1, 1.0)
    pauses = [backoff.pause(failures) for _ in range(200)]
    assert 0.8 * pause <= min(pauses) < 0.9 * pause
    assert 1.1 * pause < max(pauses) <= 1.2 * pause
