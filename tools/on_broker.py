"""Start a broker of the tests, run a command with its address, and stop the broker.

    python -m tools.on_broker --setting num_partitions=2 kafka-2.8.2 npx jest src/producer

The command finds the address, such as 127.0.0.1:9092, in the variable BOOTSTRAP_SERVERS, and its two parts in
BROKER_HOST and BROKER_PORT. So tests of other clients can run on the reference broker and on real Kafka, and
their results can be compared. The exit status is that of the command.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.servers.kafka import KraftCluster
from tests.servers.kinds import KINDS
from tests.servers.reaper import Reaper
from tests.servers.reference import ReferenceBroker
from tests.servers.server import Server
from tests.servers.zookeeper_kafka import ZooKeeperKafka

_BROKERS = ("reference", "kafka-4.3.1", *(name for name, kind in KINDS.items() if kind.zookeeper))
_NOT_FOUND = 127


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line *arguments*, and return the exit status of the command."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.on_broker",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("broker", choices=_BROKERS)
    parser.add_argument(
        "--setting",
        action="append",
        default=[],
        type=_setting,
        metavar="NAME=NUMBER",
        help="a setting of the broker with underscores, such as num_partitions=2; may be repeated",
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the command and its arguments")
    options = parser.parse_args(arguments)
    if not options.command:
        parser.error("name the command to run after the broker, such as: reference npx jest")
    reaper = Reaper()
    with tempfile.TemporaryDirectory(prefix="pyklient-on-broker-") as directory:
        server = _server(options.broker, Path(directory) / "broker", reaper, dict(options.setting))
        try:
            server.start()
            return _run(options.command, server.bootstrap_servers)
        finally:
            server.stop()
            reaper.close()


def _setting(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if not number.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} has not the form NAME=NUMBER")
    return name, int(number)


def _server(broker: str, directory: Path, reaper: Reaper, settings: Mapping[str, int]) -> Server:
    if broker == "reference":
        return ReferenceBroker(directory, reaper, settings)
    properties = {name.replace("_", "."): number for name, number in settings.items()}
    if broker == "kafka-4.3.1":
        return KraftCluster(directory, reaper, settings=properties)
    return ZooKeeperKafka(directory, reaper, broker.removeprefix("kafka-"), settings=properties)


def _run(command: Sequence[str], bootstrap_servers: str) -> int:
    host, _, port = bootstrap_servers.rpartition(":")
    address = {"BOOTSTRAP_SERVERS": bootstrap_servers, "BROKER_HOST": host, "BROKER_PORT": port}
    try:
        return subprocess.run(command, env={**os.environ, **address}, check=False).returncode
    except OSError as error:
        print(f"{command[0]} cannot be run: {error.strerror}", file=sys.stderr)
        return _NOT_FOUND


if __name__ == "__main__":
    sys.exit(main())
