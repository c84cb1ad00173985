"""The fixture of the tests with an offset store."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.consumer.offsets.results import Results


@pytest.fixture
def results(tmp_path: Path) -> Iterator[Results]:
    results = Results(tmp_path / "results.db")
    with closing(results.database):
        yield results
