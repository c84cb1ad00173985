"""``make chaos-transactions``: three stages read, transform and send messages in transactions, while faults
are injected into these programs, their connections and their brokers.

    python -m tools.transactions --faults 100 --seed 7 --broker kafka-4.3.1

The exit status is 0 if the last topic holds each message exactly once, and in the order of its key.
"""

import argparse
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.servers.kafka import KraftCluster
from tests.servers.reaper import Reaper
from tests.servers.reference import ReferenceBroker
from tools.seeded_run import SeededRun, add_seed, kraft_cluster
from tools.transactions.run import chain_through_faults

_BROKERS: Mapping[str, Callable[[Path, Reaper], KraftCluster | ReferenceBroker]] = {
    "kafka-4.3.1": kraft_cluster(3),
    "reference": ReferenceBroker,
}
_MESSAGES = 2_000
"""The number of messages for each fault."""
_RATE = 400
_MAX_BLOCKS_MS = (20_000, 1_000, 20_000)
"""The ``max_block_ms`` of each stage. One is so short that the outcome of commits is unknown while a broker
is stopped."""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.transactions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--broker", choices=_BROKERS, default="kafka-4.3.1")
    parser.add_argument("--faults", type=int, default=100, help="(default 100)")
    add_seed(parser)
    options = parser.parse_args()
    run = SeededRun(options.seed)
    with (
        run.server(_BROKERS[options.broker]) as server,
        tempfile.TemporaryDirectory(prefix="pyklient-chain-") as directory,
    ):
        problems = chain_through_faults(
            server,
            "chain",
            Path(directory),
            seed=run.seed,
            faults=options.faults,
            messages=_MESSAGES * options.faults,
            rate=_RATE,
            max_blocks_ms=_MAX_BLOCKS_MS,
            say=run.say,
        )
    run.end(problems)


if __name__ == "__main__":
    main()
