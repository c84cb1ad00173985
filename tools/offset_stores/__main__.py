"""``make chaos-stores``: programs that store messages in SQLite and in PostgreSQL are killed and stopped,
while other members join and leave.

    python -m tools.offset_stores --moments 50 --seed 7

The exit status is 0 if each message is stored exactly once.
"""

import argparse
import tempfile
from pathlib import Path

from tests.servers.kafka import KraftCluster
from tests.servers.postgres import Postgres
from tests.servers.reaper import Reaper
from tests.servers.reference import ReferenceBroker
from tools.offset_stores.kills import kill_programs
from tools.seeded_run import SeededRun, add_seed

_BROKERS = {"reference": ReferenceBroker, "kafka-4.3.1": KraftCluster}
_DATABASES = ("sqlite", "postgres")
_MESSAGES = 4_000
"""The number of messages for each moment."""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.offset_stores",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--broker", choices=_BROKERS, default="kafka-4.3.1")
    parser.add_argument("--database", choices=_DATABASES, help="only this one")
    parser.add_argument("--moments", type=int, default=50, help="for each database (default 50)")
    add_seed(parser)
    options = parser.parse_args()
    run = SeededRun(options.seed)
    found: list[str] = []
    reaper = Reaper()
    postgres = Postgres(reaper)
    try:
        with (
            run.server(_BROKERS[options.broker]) as broker,
            tempfile.TemporaryDirectory(prefix="pyklient-stores-") as directory,
        ):
            databases = {"sqlite": f"{directory}/results.db", "postgres": postgres.new_database()}
            for name in [options.database] if options.database else _DATABASES:
                database = databases[name]
                run.say(name)
                found += kill_programs(
                    broker.bootstrap_servers,
                    f"into-{name}",
                    database,
                    Path(directory),
                    seed=run.seed,
                    moments=options.moments,
                    messages=_MESSAGES * options.moments,
                    say=run.say,
                )
    finally:
        postgres.close()
        reaper.close()
    run.end(found)


if __name__ == "__main__":
    main()
