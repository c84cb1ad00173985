"""The brokers of the programs that inject faults and kill processes."""

from pathlib import Path

import pytest

from tests.servers.reaper import Reaper
from tools.seeded_run import kraft_cluster


@pytest.mark.java
def test_the_brokers_of_a_run_map_small_indexes_so_that_first_index_entries_stop_no_broker(
    tmp_path: Path,
) -> None:
    reaper = Reaper()
    kraft_cluster(2)(tmp_path, reaper)
    reaper.close()
    for properties in tmp_path.glob("*/server.properties"):
        lines = dict(line.split("=", 1) for line in properties.read_text().splitlines())
        assert int(lines["log.index.size.max.bytes"]) <= 1024 * 1024
    assert len(list(tmp_path.glob("*/server.properties"))) == 2
