"""The text of completed offsets: what it looks like, that it can be read again, and how long it is."""

from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyklient.consumer.parallel.completed_offsets import decode, encode, fits

_BROKERS_LIMIT = 4096


def runs(offsets: set[int]) -> list[range]:
    """Return *offsets* as ranges."""
    ordered = sorted(offsets)
    groups = groupby(enumerate(ordered), key=lambda each: each[1] - each[0])
    return [range(run[0], run[-1] + 1) for run in ([offset for _, offset in group] for _, group in groups)]


@pytest.mark.parametrize(
    ("first", "offsets", "text"),
    [
        (10, set[int](), ""),
        # Bit 1, and bits 3 to 5: 0x3A.
        (10, {11, 13, 14, 15}, "pyklient-completed-bits:Og=="),
        # 1 not completed, then 1000 = 0xE8 0x07 completed.
        (10, set(range(11, 1011)), "pyklient-completed-runs:AegH"),
        # The committed offset itself may be completed: it was so before, and has not been read yet.
        (7, {7}, "pyklient-completed-bits:AQ=="),
    ],
)
def test_texts_stay_as_they_are_because_later_versions_read_them(
    first: int, offsets: set[int], text: str
) -> None:
    assert encode(first, runs(offsets)) == text
    assert decode(first, text) == runs(offsets)


@given(st.integers(0, 1 << 60), st.sets(st.integers(0, 30_000), max_size=400))
def test_what_is_written_is_read_again(first: int, steps: set[int]) -> None:
    completed = runs({first + step for step in steps})
    text = encode(first, completed)
    assert len(text) <= _BROKERS_LIMIT
    assert decode(first, text) == completed


@given(st.integers(1, 1 << 40), st.integers(1, 3_000), st.randoms(use_true_random=False))
def test_a_text_that_fits_is_complete_and_short_enough(span: int, gaps: int, random: object) -> None:
    if not fits(span, gaps):
        return
    # The worst case: every second run is one offset long, and the others are as long as they can be.
    step = max(2, span // gaps)
    starts = range(1, span, step)[:gaps]
    for completed in (
        [range(start, start + 1) for start in starts],
        [range(start, min(start + step - 1, span)) for start in starts],
    ):
        text = encode(0, completed)
        assert len(text) <= _BROKERS_LIMIT
        assert decode(0, text) == completed


def test_thousands_of_gaps_next_to_each_other_fit() -> None:
    completed = [range(offset, offset + 1) for offset in range(1, 24_000, 2)]
    assert fits(24_000, 12_000)
    assert decode(0, encode(0, completed)) == completed


def test_what_does_not_fit_is_cut_off_at_the_far_end() -> None:
    completed = [range(offset, offset + 1) for offset in range(1, 1_000_000, 50)]
    assert not fits(1_000_000, len(completed))
    text = encode(0, completed)
    assert len(text) <= _BROKERS_LIMIT
    read = decode(0, text)
    assert read
    assert read == completed[: len(read)]


@given(st.one_of(st.text(), st.binary().map(lambda some: "pyklient-completed-runs:" + some.hex())))
def test_the_text_of_another_program_names_nothing(text: str) -> None:
    for run in decode(5, text):
        assert 5 <= run.start < run.stop


@pytest.mark.parametrize("text", ["pyklient-completed-runs:gI", "pyklient-completed-runs:gA==", "x", "née"])
def test_a_damaged_text_names_nothing(text: str) -> None:
    assert decode(5, text) == []
