"""``make chaos-mirror``: mirrors that are killed together with their brokers.

    python -m tools.mirror --kills 10 --records 1000000 --seed 7

The exit status is 0 if no record was lost, the order of each partition was kept, records were
repeated only after a SIGKILL of the mirror or of the source, the audit agrees, and a group whose
offsets were translated skips nothing. With ``--victim target``, no record is repeated, and the
audit says that all partitions are equal.
"""

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.servers.kafka import KraftCluster
from tests.servers.reaper import Reaper
from tests.servers.reference import ReferenceBroker
from tests.servers.server import Server
from tests.servers.zookeeper_kafka import ZooKeeperKafka
from tools.mirror.kills import VICTIMS, kill_mirror
from tools.seeded_run import SeededRun, add_seed

_SOURCES: dict[str, Callable[[Path, Reaper], Server]] = {
    "reference": ReferenceBroker,
    "kafka-4.3.1": KraftCluster,
    "kafka-0.8.2.2": partial(ZooKeeperKafka, version="0.8.2.2"),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.mirror",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--source", choices=_SOURCES, action="append", help="default: each of them")
    parser.add_argument("--victim", choices=VICTIMS, action="append", help="default: each of them")
    parser.add_argument("--kills", type=int, default=10, help="for each source (default 10)")
    parser.add_argument("--records", type=int, default=1_000_000, help="for each source (default a million)")
    add_seed(parser)
    options = parser.parse_args()
    run = SeededRun(options.seed)
    found: list[str] = []
    for name in options.source or list(_SOURCES):
        goal = ReferenceBroker if name == "reference" else KraftCluster
        run.say(name)
        with (
            run.server(_SOURCES[name]) as source,
            run.server(goal) as target,
            tempfile.TemporaryDirectory(prefix="pyklient-mirror-") as directory,
        ):
            reading = {}
            if isinstance(source, ZooKeeperKafka):
                reading = {"zookeeper": source.zookeeper_connect, "coordination": "zookeeper"}
            found += kill_mirror(
                source,
                target,
                "kills",
                Path(directory),
                seed=run.seed,
                kills=options.kills,
                records=options.records,
                victims=options.victim or VICTIMS,
                reading=reading,
                say=run.say,
            )
    run.end(found)


if __name__ == "__main__":
    main()
