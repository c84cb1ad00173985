"""``make bench-start``: the CPU time of pyklient in a new process, and of clients that have nothing to do.

The program starts a Kafka broker. Each row of the first table is a program that runs in a new process in each
round. The figures are the CPU time of this process with all its threads, in milliseconds: the median of the
rounds, and in brackets the smallest and the largest. The first row is the time that Python needs to start. It
is not part of the other rows. Then a producer and a connector wait for a minute.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pyklient import Admin, Producer
from tests.servers.java import SERVER_JVM
from tests.servers.kafka import KraftCluster
from tests.servers.reaper import Reaper
from tools.repository import ROOT

__all__: list[str] = []

_TOPIC: Final = "clicks"
_TIMEOUT: Final = 120
_SEND: Final = """
producer = pyklient.Producer(servers)
producer.send(topic, b"home").result(30)
"""
_READ: Final = """
connector = pyklient.ConsumerConnector(servers, group_id=group, auto_offset_reset="earliest")
next(iter(connector.stream(topic)))
"""
_PYTHON: Final = "Python"
_STARTS: Final = {
    _PYTHON: ("", ""),
    "import pyklient": ("import pyklient", ""),
    "… and Producer": ("import pyklient; pyklient.Producer", ""),
    "… and ConsumerConnector": ("import pyklient; pyklient.ConsumerConnector", ""),
    "… and both": ("import pyklient; pyklient.Producer; pyklient.ConsumerConnector", ""),
    "first acknowledgement": ("import pyklient; pyklient.Producer", _SEND),
    "first message": ("import pyklient; pyklient.ConsumerConnector", _READ),
}
"""The imports of each program, and the code that follows them."""
_WAITING: Final = {"producer": _SEND, "connector": _READ}
_MEASURE: Final = """
import sys, time
servers, topic, group = sys.argv[1:]
{imports}
imported = time.process_time()
{work}
print(imported, time.process_time(), flush=True)
"""
_WAIT: Final = """
time.sleep(2)  # until what begins with the first record is over
begin = time.process_time()
time.sleep({seconds})
print(begin, time.process_time(), flush=True)
"""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.benchmarks.start_up", description=__doc__)
    parser.add_argument("--rounds", type=int, default=11, help="default 11")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long clients wait (default 60)")
    options = parser.parse_args()
    reaper = Reaper()
    with tempfile.TemporaryDirectory(prefix="pyklient-start-") as directory:
        broker = KraftCluster(Path(directory), reaper, heap="1g", jvm=SERVER_JVM)
        try:
            broker.start()
            _prepare(broker.bootstrap_servers)
            _print_starts(broker.bootstrap_servers, options.rounds)
            _print_waiting(broker.bootstrap_servers, options.seconds)
        finally:
            broker.stop()
            reaper.close()


def _prepare(servers: str) -> None:
    """Make the topic, and let each program run once, so that broker and modules are ready."""
    with Admin(servers) as admin, Producer(servers) as producer:
        admin.create_topic(_TOPIC, partitions=4)
        for partition in range(4):
            producer.send(_TOPIC, b"home", partition=partition).result(30)
    for name, (imports, work) in _STARTS.items():
        _times(servers, f"warm-{name}", imports, work)


def _print_starts(servers: str, rounds: int) -> None:
    totals: dict[str, list[float]] = {name: [] for name in _STARTS}
    afterwards: dict[str, list[float]] = {name: [] for name in _STARTS}
    for number in range(rounds):
        for name, (imports, work) in _STARTS.items():
            imported, total = _times(servers, f"{name}-{number}", imports, work)
            totals[name].append(total * 1e3)
            afterwards[name].append((total - imported) * 1e3)
    python = statistics.median(totals[_PYTHON])
    print("| program | CPU ms | CPU ms after the import |\n| --- | --: | --: |")
    for name, (_, work) in _STARTS.items():
        own = totals[name] if name == _PYTHON else [each - python for each in totals[name]]
        print(f"| {name} | {_spread(own)} | {_spread(afterwards[name]) if work else ''} |")


def _print_waiting(servers: str, seconds: float) -> None:
    print("\n| client that waits | CPU, % of a core |\n| --- | --: |")
    for name, work in _WAITING.items():
        waited = _MEASURE.format(imports="import pyklient", work=work) + _WAIT.format(seconds=seconds)
        begin, end = _run(waited, servers, f"waiting-{name}", seconds)[1]
        print(f"| {name} | {(end - begin) / seconds * 100:.3f} |")


def _times(servers: str, group: str, imports: str, work: str) -> tuple[float, float]:
    return _run(_MEASURE.format(imports=imports, work=work), servers, group)[0]


def _run(code: str, servers: str, group: str, seconds: float = 0.0) -> list[tuple[float, float]]:
    """Run *code* in a new process. Return the pairs of times that it prints, in seconds."""
    environment = dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # otherwise modules would be compiled in every run
    ran = subprocess.run(
        [sys.executable, "-c", code, servers, _TOPIC, group],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT + seconds,
        check=True,
    )
    pairs = (line.split() for line in ran.stdout.splitlines())
    return [(float(first), float(second)) for first, second in pairs]


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


if __name__ == "__main__":
    main()
