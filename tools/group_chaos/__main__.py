"""``make chaos-groups``: a group of twenty members on real brokers, and events that are chosen by seed.

    python -m tools.group_chaos --events 200 --seed 7 --assignor cooperative-sticky --broker kafka-4.3.1

The exit status is 0 if every record was handed out, no committed offset went back, no record was handed out
again after it had been committed, also not by a member that was woken, and the group was as fast as the
limits below require.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from tests.servers.groups import coordinator
from tests.servers.kafka import KraftCluster
from tests.servers.reaper import Reaper
from tests.servers.reference import ReferenceBroker
from tests.servers.server import Server
from tools.group_chaos.assignment_time import seconds_to_assign
from tools.group_chaos.chaos import Chaos, Size
from tools.seeded_run import SeededRun, add_seed, kraft_cluster

_ASSIGNORS = ("range", "cooperative-sticky")
_BROKERS: Mapping[str, Callable[[Path, Reaper], Server]] = {
    "kafka-4.3.1": kraft_cluster(3),
    "reference": ReferenceBroker,
}
_PARTITIONS = 1_000
_LIMITS = {
    "death": Size().session_ms / 1000 + 2,
    "leave": 1.0,
    "assignment": 2.0,
}
"""The longest times, in seconds: until all partitions of a member flow again after its death and after it
has left, and until a thousand partitions are assigned after a member has left."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.group_chaos", description=__doc__)
    parser.add_argument(
        "--events", type=int, default=200, help="with each assignor, on each broker (default 200)"
    )
    parser.add_argument("--assignor", choices=_ASSIGNORS, help="leave the other one out")
    parser.add_argument("--broker", choices=_BROKERS, help="leave the other one out")
    parser.add_argument("--members", type=int, default=20, help="(default 20)")
    add_seed(parser)
    options = parser.parse_args()
    run = SeededRun(options.seed)
    problems: list[str] = []
    for broker, make in _BROKERS.items():
        if options.broker in (None, broker):
            with run.server(make) as server:
                for assignor in _ASSIGNORS:
                    if options.assignor in (None, assignor):
                        found = _problems(run, server, assignor, options.members, options.events)
                        problems += [f"{broker}, {assignor}: {problem}" for problem in found]
    run.end(problems)


def _problems(run: SeededRun, server: Server, assignor: str, members: int, events: int) -> Iterator[str]:
    """Let *events* events happen to a group of *members* members with *assignor*. Yield the problems."""
    bootstrap = server.bootstrap_servers
    chaos = Chaos(
        bootstrap,
        f"chaos-{assignor}",
        assignor,
        seed=run.seed,
        size=Size(members=members),
        restart_coordinator=partial(_restart_coordinator, server),
        say=run.say,
    )
    yield from chaos.run(events)
    seconds = {
        **chaos.pauses,
        "assignment": seconds_to_assign(
            bootstrap, f"thousand-{assignor}", assignor, members=members, partitions=_PARTITIONS
        ),
    }
    for what, took in seconds.items():
        run.say(f"{assignor}: {what}: {took:.2f} s, at most {_LIMITS[what]:g} s")
        if took > _LIMITS[what]:
            yield f"{what}: {took:.2f} s, at most {_LIMITS[what]:g} s are allowed"


def _restart_coordinator(server: Server, group: str) -> None:
    """Send SIGKILL to the broker that coordinates *group*, and start it again."""
    if isinstance(server, KraftCluster):
        node = coordinator(server.bootstrap_servers, group)
        server.kill(node)
        server.restart(node)
    else:
        server.kill()
        server.restart()


if __name__ == "__main__":
    main()
