"""The same scripts on the asynchronous producers of Kafka and pyklient: both must do the same."""

from collections.abc import Iterator

import pytest

from tests.classic.send_scripts import SCRIPTS, Script, play
from tests.oracles.process import Oracle


@pytest.fixture(scope="module")
def kafkas_results() -> Iterator[dict[Script, str]]:
    """The results of Kafka's producer and its ProducerSendThread for each script."""
    with Oracle("0.8.2.2", "SendThreadOracle.java") as oracle:
        yield dict(zip(SCRIPTS, oracle.ask(script.line for script in SCRIPTS), strict=True))


@pytest.mark.java
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_a_script_has_the_same_results_as_on_kafkas_producer(
    script: Script, kafkas_results: dict[Script, str]
) -> None:
    """Rows 27 to 32 are among the scripts, under their numbers."""
    assert play(script) == kafkas_results[script]


EXPECTED = {
    "row 27": "sent; sent; full; closed after 12",
    "row 28, 2 s": "sent; sent; full waited",
    "row 28, without limit": "sent; sent; later sent waited; closed after 13",
    "row 29": "handle 1 2 3 4 5; handle 6 7 8 9 10; close",
    "row 30": "handle 1 2; close",
    "row 31": "sent; closed after 2; closed\thandle 1 2 3; close",
    "row 32, batch": "InvalidConfigException\t",
    "row 32, type": "InvalidConfigException\t",
}
"""What the documents say of some scripts: the beginning or the end of their results."""


@pytest.mark.parametrize(
    "script", [each for each in SCRIPTS if each.name in EXPECTED], ids=lambda each: each.name
)
def test_a_row_has_the_results_that_the_documents_name(script: Script) -> None:
    """Rows 27 to 32, also on machines without Java."""
    expected = EXPECTED[script.name]
    results = play(script)
    assert results.startswith(expected) or results.endswith(expected)
