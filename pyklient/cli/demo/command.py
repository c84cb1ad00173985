"""The ``demo`` command: starts a broker where none is given, runs the job, prints what was counted."""

import contextlib
from collections.abc import Iterator

import click
from rich.console import Console

from pyklient import kernel
from pyklient.broker import Broker
from pyklient.cli.cluster_options import Settings, connection_options
from pyklient.cli.demo.flights import Flights
from pyklient.cli.demo.job import run_job
from pyklient.cli.demo.screen import show_outcome, show_progress
from pyklient.cli.tables import print_json
from pyklient.config import AdminConfig, ConsumerConfig, ProducerConfig

__all__ = ["demo"]


@click.command(
    short_help="336,776 real flights through a group of three, counted.",
    epilog="""\b
Examples:
  pyklient demo
  pyklient demo --bootstrap-servers localhost:9092     on a cluster of yours
""",
)
@click.option("--flights", "limit", type=click.IntRange(1), help="Only the first so many flights.")
@click.option("--keep", is_flag=True, help="Leave the topic and the group on the cluster.")
@click.option("--json", "as_json", is_flag=True, help="The result as one JSON object.")
@connection_options(
    AdminConfig, ConsumerConfig, ProducerConfig, otherwise="a broker of its own", timeout=False
)
def demo(limit: int | None, keep: bool, as_json: bool, settings: Settings) -> None:
    """Send 336,776 real flights through a topic and a consumer group, and count what arrives.

    One message a flight, keyed by carrier, eight partitions, zstd. A group of two reads while they are
    produced; a third member joins half-way. Runs on a broker inside this process, or with -b on a cluster of
    yours; PYKLIENT_BOOTSTRAP_SERVERS does not count. Fails (exit code 1) where a message was lost or changed,
    or the group has something left to read.
    """
    console = Console(stderr=as_json)
    flights = Flights(limit)
    with _cluster(settings) as (where, reachable):
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
def _cluster(settings: Settings) -> Iterator[tuple[str, Settings]]:
    if settings.names_a_cluster:
        yield settings.servers, settings
        return
    with Broker() as broker:
        yield f"the embedded broker at {broker.bootstrap_servers}", settings.at(broker.bootstrap_servers)
