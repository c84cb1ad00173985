"""Numbers of things in messages and logs."""

import pytest

from pyklient.counted import counted


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 batches"), (1, "1 batch"), (2, "2 batches"), (1234, "1,234 batches")]
)
def test_a_count_has_the_form_of_its_noun(count: int, text: str) -> None:
    assert counted(count, "batch", "batches") == text


def test_most_nouns_get_an_s() -> None:
    assert [counted(count, "partition") for count in (1, 2)] == ["1 partition", "2 partitions"]
