"""``make chaos-handlers`` and ``make bench-handlers``: handlers that run in parallel, killed and measured.

    python -m tools.handlers kills --kills 50 --seed 7
    python -m tools.handlers speed

The exit status of ``kills`` is 0 if nothing was skipped, nothing that a commit tells to be done was handled
again, and messages of one key were handled in order.
"""

import argparse
import tempfile
from pathlib import Path

from tests.servers.kafka import KraftCluster
from tests.servers.reference import ReferenceBroker
from tools.handlers.kills import kill_handlers
from tools.handlers.speed import measure
from tools.seeded_run import SeededRun, add_seed

_BROKERS = {"reference": ReferenceBroker, "kafka-4.3.1": KraftCluster}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.handlers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", choices=["kills", "speed"])
    parser.add_argument(
        "--broker", choices=_BROKERS, action="append", help="default: both, one after the other"
    )
    parser.add_argument("--kills", type=int, default=50, help="on each broker (default 50)")
    parser.add_argument("--processes", action="store_true", help="workers are processes, not threads")
    add_seed(parser)
    options = parser.parse_args()
    run = SeededRun(options.seed)
    found: list[str] = []
    for name in options.broker or list(_BROKERS):
        run.say(name)
        with run.server(_BROKERS[name]) as broker:
            if options.what == "speed":
                measure(broker.bootstrap_servers, say=run.say)
                continue
            with tempfile.TemporaryDirectory(prefix="pyklient-handlers-") as directory:
                found += kill_handlers(
                    broker.bootstrap_servers,
                    "kills",
                    Path(directory),
                    seed=run.seed,
                    kills=options.kills,
                    messages=300 * options.kills,
                    processes=options.processes,
                    say=run.say,
                )
    run.end(found)


if __name__ == "__main__":
    main()
