"""The ``demo`` command: it starts a broker if none is given, runs the job and prints the counts."""

import contextlib
from collections.abc import Iterator

import click
from rich.console import Console

from pyklient import kernel
from pyklient.broker import Broker
from pyklient.cli.cluster_options import ClusterOptions, cluster_options
from pyklient.cli.demo.flights import Flights
from pyklient.cli.demo.job import run_job
from pyklient.cli.demo.screen import show_outcome, show_progress
from pyklient.cli.tables import print_json
from pyklient.config import AdminConfig, ConsumerConfig, ProducerConfig

__all__ = ["demo"]


@click.command(
    short_help="Send 336,776 real flights through a group of three, and count them.",
    epilog="""\b
Examples:
  pyklient demo
  pyklient demo --bootstrap-servers localhost:9092     use your own cluster
""",
)
@click.option("--flights", "limit", type=click.IntRange(1), help="Use only this many flights.")
@click.option("--keep", is_flag=True, help="Keep the topic and the group on the cluster.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
@cluster_options(
    AdminConfig, ConsumerConfig, ProducerConfig, otherwise="a new broker in this process", timeout=False
)
def demo(limit: int | None, keep: bool, as_json: bool, cluster: ClusterOptions) -> None:
    """Send 336,776 real flights through a topic and a consumer group, and count what arrives.

    Each flight is a message with the carrier as its key. The topic has eight partitions and zstd compression.
    Two members of a group read while the flights are produced, and a third joins half-way. The demo runs a
    broker in its own process, or uses the cluster of -b; it ignores PYKLIENT_BOOTSTRAP_SERVERS. It fails
    (exit code 1) if a message was lost or changed, or if the group has not read everything.
    """
    console = Console(stderr=as_json)
    flights = Flights(limit)
    with _cluster(cluster) as (where, reachable):
        console.print(f"{flights.count:,} flights on {where}, {kernel.name} kernel", highlight=False)
        with show_progress(console, flights.count) as watch:
            outcome = run_job(flights, reachable, watch, keep=keep)
    if as_json:
        print_json(outcome.as_json())
    else:
        show_outcome(console, outcome, flights.airlines)
    if not outcome.holds:
        raise click.ClickException(outcome.what_is_wrong())


@contextlib.contextmanager
def _cluster(cluster: ClusterOptions) -> Iterator[tuple[str, ClusterOptions]]:
    if cluster.names_a_cluster:
        yield cluster.where, cluster
        return
    with Broker() as broker:
        yield f"the embedded broker at {broker.bootstrap_servers}", cluster.at(broker.bootstrap_servers)
