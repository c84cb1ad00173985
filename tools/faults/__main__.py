"""``make faults``: clients of three real brokers, behind a proxy that injects faults by seed.

    python -m tools.faults --faults 100 --seed 7 --only group

The exit status is 0 if all records of the producer are confirmed, and stored once and in order, and if the
group received every record and never committed an offset before it.
"""

import argparse

from tools.faults.producing import produce_through_faults
from tools.faults.reading import read_through_faults
from tools.seeded_run import SeededRun, add_seed, kraft_cluster

_RUNS = {"producer": produce_through_faults, "group": read_through_faults}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.faults", description=__doc__)
    parser.add_argument("--faults", type=int, default=100, help="under each of the two (default 100)")
    parser.add_argument("--only", choices=_RUNS, help="leave the other one out")
    add_seed(parser)
    options = parser.parse_args()
    run = SeededRun(options.seed)
    found: list[str] = []
    with run.server(kraft_cluster(3)) as cluster:
        for name, inject in _RUNS.items():
            if options.only in (None, name):
                run.say(f"{options.faults} faults under a {name}")
                found += inject(
                    cluster.bootstrap_servers,
                    f"{name}-faults",
                    seed=run.seed,
                    faults=options.faults,
                    say=run.say,
                )
    run.end(found)


if __name__ == "__main__":
    main()
