"""``make chaos-handlers`` and ``make bench-handlers``: handlers that run in parallel, killed and measured.

    python -m tools.handlers kills --kills 50 --seed 7
    python -m tools.handlers speed

The exit status of ``kills`` is 0 if nothing was skipped, nothing that a commit tells to be done was handled
again, and messages of one key were handled in order.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.servers.kafka import KraftCluster
from tests.servers.reaper import Reaper
from tests.servers.reference import ReferenceBroker
from tools.handlers.kills import kill_handlers
from tools.handlers.speed import measure

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
    parser.add_argument("--seed", type=int, help="of an earlier run, for the same moments")
    parser.add_argument("--processes", action="store_true", help="workers are processes, not threads")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    began = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {line}", flush=True)

    found: list[str] = []
    for name in options.broker or list(_BROKERS):
        say(f"{name}, seed {seed}")
        with tempfile.TemporaryDirectory(
            prefix="pyklient-handlers-", ignore_cleanup_errors=True
        ) as directory:
            reaper = Reaper()
            broker = _BROKERS[name](Path(directory) / "broker", reaper)
            try:
                broker.start()
                if options.what == "speed":
                    measure(broker.bootstrap_servers, say=say)
                else:
                    found += kill_handlers(
                        broker.bootstrap_servers,
                        "kills",
                        Path(directory),
                        seed=seed,
                        kills=options.kills,
                        messages=300 * options.kills,
                        processes=options.processes,
                        say=say,
                    )
            finally:
                broker.stop()
                reaper.close()
    for problem in found[:20]:
        print(problem)
    print(f"seed {seed}: {len(found)} problems")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
