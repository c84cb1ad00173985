"""``pyklient broker``: run the reference broker as a program."""

import contextlib
import sys
from pathlib import Path

import click

from pyklient.broker import Broker
from pyklient.broker.keyword_types import BrokerOptions

__all__ = ["broker"]


@click.command(
    short_help="Run a broker for tests and first runs.",
    epilog="""\b
Examples:
  pyklient broker
  pyklient broker --zookeeper localhost:2181/kafka
  pyklient broker --port 19092 --data-dir ./kafka-data --partitions 4
""",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--advertised-host",
    metavar="HOST",
    help="Address that clients are told to connect to.  [default: --host]",
)
@click.option(
    "-p",
    "--port",
    type=click.IntRange(0, 65535),
    default=9092,
    show_default=True,
    help="Port to listen on; 0 chooses a free one.",
)
@click.option(
    "-d",
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for the records.  [default: a temporary one, removed at the end]",
)
@click.option(
    "--partitions",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Partitions of topics that are created when they are first used.",
)
@click.option(
    "--auto-create/--no-auto-create",
    default=True,
    show_default=True,
    help="Create topics when they are first used.",
)
@click.option(
    "--zookeeper",
    metavar="HOST:PORT,…/CHROOT",
    help="ZooKeeper in which the broker registers itself and its topics.",
)
def broker(
    host: str,
    advertised_host: str | None,
    port: int,
    data_dir: Path | None,
    partitions: int,
    auto_create: bool,
    zookeeper: str | None,
) -> None:
    """Run a broker for tests and first runs, until Ctrl-C.

    Any Kafka client can use it. It is one process without replication, and is not meant for data that must
    last.
    """
    options: BrokerOptions = {"num_partitions": partitions, "auto_create_topics": auto_create}
    if zookeeper is not None:
        options["zookeeper"] = zookeeper
    with Broker(port, host=host, advertised_host=advertised_host, data_dir=data_dir, **options) as running:
        print(f"listening on {running.bootstrap_servers}", flush=True)
        print("Press Ctrl-C to stop.", file=sys.stderr)
        with contextlib.suppress(KeyboardInterrupt):
            running.wait()
