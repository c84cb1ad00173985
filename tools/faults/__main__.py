"""``make faults``: clients of three real brokers, behind a proxy that injects faults by seed.

    python -m tools.faults --faults 100 --seed 7 --only group

The exit status is 0 if all records of the producer are confirmed, and stored once and in order, and if the
group received every record and never committed an offset before it.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.servers.kafka import KraftCluster
from tests.servers.reaper import Reaper
from tools.faults.producing import produce_through_faults
from tools.faults.reading import read_through_faults

_RUNS = {"producer": produce_through_faults, "group": read_through_faults}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.faults", description=__doc__)
    parser.add_argument("--faults", type=int, default=100, help="under each of the two (default 100)")
    parser.add_argument("--seed", type=int, help="of an earlier run, for the same faults")
    parser.add_argument("--only", choices=_RUNS, help="leave the other one out")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    began = time.monotonic()
    print(f"seed {seed}", flush=True)

    def say(line: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {line}", flush=True)

    found: list[str] = []
    with tempfile.TemporaryDirectory(prefix="pyklient-faults-", ignore_cleanup_errors=True) as directory:
        reaper = Reaper()
        cluster = KraftCluster(Path(directory) / "kafka", reaper, brokers=3)
        try:
            cluster.start()
            for name, run in _RUNS.items():
                if options.only in (None, name):
                    say(f"{options.faults} faults under a {name}")
                    bootstrap = cluster.bootstrap_servers
                    found += run(bootstrap, f"{name}-faults", seed=seed, faults=options.faults, say=say)
        finally:
            cluster.stop()
            reaper.close()
    for problem in found:
        print(problem)
    print(f"seed {seed}: {len(found)} problems")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
