"""``make chaos-groups``: a group of twenty members on three real brokers, and events that are chosen by seed.

    python -m tools.group_chaos --events 200 --seed 7 --assignor cooperative-sticky

The exit status is 0 if every record was handed out, no committed offset went back, and no record was handed
out again after it had been committed, except by a member that was woken a moment before. The number of such
records is printed.
"""

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path

from tests.servers.groups import coordinator
from tests.servers.kafka import KraftCluster
from tests.servers.reaper import Reaper
from tools.group_chaos.chaos import Chaos, Size

_ASSIGNORS = ("range", "cooperative-sticky")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.group_chaos", description=__doc__)
    parser.add_argument("--events", type=int, default=200, help="with each assignor (default 200)")
    parser.add_argument("--seed", type=int, help="of an earlier run, for the same events")
    parser.add_argument("--assignor", choices=_ASSIGNORS, help="leave the other one out")
    parser.add_argument("--members", type=int, default=20, help="(default 20)")
    parser.add_argument("--brokers", type=int, default=3, help="(default 3)")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(1_000_000) if options.seed is None else options.seed
    began = time.monotonic()
    print(f"seed {seed}", flush=True)

    def say(line: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {line}", flush=True)

    problems: list[str] = []
    with tempfile.TemporaryDirectory(prefix="pyklient-chaos-", ignore_cleanup_errors=True) as directory:
        reaper = Reaper()
        cluster = KraftCluster(Path(directory) / "kafka", reaper, brokers=options.brokers)

        def restart_coordinator(group: str) -> None:
            node = coordinator(cluster.bootstrap_servers, group)
            cluster.kill(node)
            cluster.restart(node)

        try:
            cluster.start()
            for assignor in _ASSIGNORS:
                if options.assignor not in (None, assignor):
                    continue
                chaos = Chaos(
                    cluster.bootstrap_servers,
                    f"chaos-{assignor}",
                    assignor,
                    seed=seed,
                    size=Size(members=options.members),
                    restart_coordinator=restart_coordinator,
                    say=say,
                )
                problems += chaos.run(options.events)
                for name, figure in chaos.figures.items():
                    say(f"{assignor}: {name}: {figure:.2f}")
        finally:
            cluster.stop()
            reaper.close()
    for problem in problems:
        print(problem)
    print(f"seed {seed}: {len(problems)} problems")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
