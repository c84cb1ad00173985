"""The pipeline of ``make demo-spark``, on a part of its flights."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pyklient.cli.demo.flights import Flights
from tests.servers.reference import ReferenceBroker

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def demo() -> ModuleType:
    """The module examples/spark/flights.py."""
    spec = importlib.util.spec_from_file_location("flights_demo", ROOT / "examples" / "spark" / "flights.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_days_of_the_pipeline_are_those_of_the_csv_and_each_micro_batch_is_told(
    spark: SparkSession,
    reference_broker: ReferenceBroker,
    tmp_path: Path,
    demo: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(demo, "FLIGHTS_PER_BATCH", 800)
    # A driver that is busy with other things does not get to look in between.
    to_the_end = StreamingQuery.awaitTermination
    monkeypatch.setattr(StreamingQuery, "awaitTermination", lambda query, _=None: to_the_end(query, 120))
    flights = Flights(3_000)
    expected = demo.from_csv(flights)
    found = demo.run(spark, reference_broker.bootstrap_servers, flights, tmp_path)

    assert found == expected
    assert sum(day.flights for day in found.values()) == 3_000
    assert {day.cancelled for day in found.values()} - {0}
    told = re.findall(r"^micro-batch (\d+): ([\d,]+) flights$", capsys.readouterr().out, re.MULTILINE)
    assert [int(number) for number, _ in told] == list(range(len(told)))
    assert sum(int(count.replace(",", "")) for _, count in told) == 3_000 + 1
    demo.show_months(found)
    assert "(months of UTC)" in capsys.readouterr().out
    demo.draw(found, tmp_path / "delays.png")
    assert (tmp_path / "delays.png").read_bytes().startswith(b"\x89PNG")
