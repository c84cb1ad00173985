"""``make chaos-spark``: kills processes of a real broker and of a Spark cluster on this machine.

    python -m tools.spark.chaos --kills 50 --seed 7

The exit status is 0 if no number is lost, and none is stored twice where exactly once is promised. After
Ctrl-C, no more processes are killed, and the numbers stored so far are checked.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.servers.kafka import KraftCluster
from tests.servers.reaper import Reaper
from tools.spark.chaos.kills import Kills


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.spark.chaos", description=__doc__)
    parser.add_argument("--kills", type=int, default=50, help="how many (default 50)")
    parser.add_argument("--seed", type=int, help="of an earlier run, for the same order of kills")
    parser.add_argument("--rate", type=int, default=1000, help="numbers a second (default 1000)")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="pyklient-chaos-", ignore_cleanup_errors=True) as directory:
        sys.exit(_run(Path(directory), options.kills, seed, options.rate))


def _run(directory: Path, kills: int, seed: int, rate: int) -> int:
    began = time.monotonic()
    reaper = Reaper()
    cluster = KraftCluster(directory / "kafka", reaper)
    cluster.start()
    chaos = None

    def say(line: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {line}", flush=True)

    try:
        chaos = Kills(cluster, directory / "job", reaper, name="chaos", seed=seed, rate=rate, say=say)
        stored = chaos.run(chaos.order(kills))
    finally:
        if chaos is not None:
            chaos.close()
        cluster.stop()
        reaper.close()
    for problem in stored.problems():
        print(problem)
    print(
        f"{chaos.killed} kills, seed {seed}: {stored.sent:,} numbers sent; {stored.copy.total():,} records "
        f"in the copied topic, {stored.duplicates:,} of them duplicates, {len(stored.problems())} problems"
    )
    return 1 if stored.problems() else 0


if __name__ == "__main__":
    main()
