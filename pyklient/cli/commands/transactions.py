"""``pyklient transactions``: list and describe transactions, and abort one that hangs."""

from dataclasses import asdict
from typing import Any, Final

import click

from pyklient.admin import Admin, OpenTransaction
from pyklient.cli.cluster_options import ClusterOptions, cluster_options
from pyklient.cli.live_screen import local_time
from pyklient.cli.parameter_checks import checked, seconds, text, topic_name
from pyklient.cli.tables import print_json, print_table
from pyklient.config import AdminConfig
from pyklient.topic_partition import TopicPartition

__all__ = ["transactions"]

_STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
    "Dead",
)


@click.group(
    epilog="""\b
Examples:
  pyklient transactions list --state Ongoing
  pyklient transactions describe orders-1
  pyklient transactions open --hanging
  pyklient transactions abort clicks 0 1234
"""
)
def transactions() -> None:
    """List and describe transactions, and abort a transaction that hangs. These commands need Kafka 3.0 or
    later."""


@transactions.command(
    "list",
    epilog="""\b
Examples:
  pyklient transactions list
  pyklient transactions list --state Ongoing --longer-than 60 --json
""",
)
@click.option(
    "--state",
    "states",
    type=click.Choice(_STATES, case_sensitive=False),
    multiple=True,
    help="Only transactional ids in this state. Repeatable.",
)
@click.option(
    "--longer-than",
    type=click.FloatRange(min=0),
    callback=checked(seconds),
    metavar="SECONDS",
    help="Only transactions that have been open for longer. Needs Kafka 3.8 or later.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
@cluster_options(AdminConfig)
def list_(states: tuple[str, ...], longer_than: float | None, as_json: bool, cluster: ClusterOptions) -> None:
    """List the transactional ids of all brokers, with their states."""
    with _admin(cluster) as admin:
        found = admin.transactions(states, None if longer_than is None else int(longer_than * 1000))
    if as_json:
        print_json([asdict(each) for each in found])
    else:
        print_table(
            ["transactional id", "state", "producer id", "coordinator"],
            [(each.transactional_id, each.state, each.producer_id, each.coordinator) for each in found],
        )


@transactions.command(epilog="Example: pyklient transactions describe orders-1 --json")
@click.argument("transactional_id", metavar="ID", callback=checked(text))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@cluster_options(AdminConfig)
def describe(transactional_id: str, as_json: bool, cluster: ClusterOptions) -> None:
    """Show the state of the transactional id ID, and the partitions of its open transaction."""
    with _admin(cluster) as admin:
        found = admin.describe_transaction(transactional_id)
    if as_json:
        print_json({**asdict(found), "partitions": list(map(str, found.partitions))})
        return
    began = "no transaction is open" if found.began_ms is None else f"began at {_time(found.began_ms)}"
    print(
        f"{found.transactional_id}: {found.state}, producer id {found.producer_id}, epoch "
        f"{found.producer_epoch}, time-out {found.timeout_ms / 1000:g} s, coordinator {found.coordinator}, "
        f"{began}"
    )
    if found.partitions:
        print_table(["topic", "partition"], found.partitions)


@transactions.command(
    "open",
    epilog="""\b
Examples:
  pyklient transactions open
  pyklient transactions open clicks views --hanging --json
""",
)
@click.argument("topics", metavar="[TOPIC]…", callback=checked(topic_name), nargs=-1)
@click.option("--hanging", is_flag=True, help="Only transactions that hang.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
@cluster_options(AdminConfig)
def open_(topics: tuple[str, ...], hanging: bool, as_json: bool, cluster: ClusterOptions) -> None:
    """Show the transactions that are open in the partitions of TOPIC… (by default, of all topics).

    A transaction hangs in a partition if its coordinator does not know that the transaction has written
    there. Neither its producer nor a time-out ends it, and consumers with read_committed wait for ever. To
    end it, use the command abort with the topic, the partition and the offset that this command shows.
    """
    with _admin(cluster) as admin:
        found = admin.open_transactions(admin.partitions(topics, internal=not topics))
    rows = [_row(each) for each in found if each.hangs or not hanging]
    if as_json:
        print_json(rows)
    else:
        columns = ["topic", "partition", "offset", "hangs", "transactional id", "producer id", "epoch"]
        times = [_time(row["last_timestamp_ms"]) for row in rows]
        cells = [list(row.values())[: len(columns)] for row in rows]
        print_table([*columns, "last record"], [[*row, time] for row, time in zip(cells, times, strict=True)])


@transactions.command(
    epilog="""\b
Examples:
  pyklient transactions open --hanging             find topic, partition and offset
  pyklient transactions abort clicks 0 1234
"""
)
@click.argument("topic", callback=checked(topic_name))
@click.argument("partition", type=click.IntRange(min=0))
@click.argument("offset", type=click.IntRange(min=0))
@click.option(
    "--force",
    is_flag=True,
    help="Abort a transaction that does not hang too. Its other partitions stay as they are, and its "
    "producer may still commit them.",
)
@cluster_options(AdminConfig)
def abort(topic: str, partition: int, offset: int, force: bool, cluster: ClusterOptions) -> None:
    """Abort the transaction that begins at OFFSET of PARTITION of TOPIC, in this partition alone.

    Only a transaction that hangs is aborted, because the coordinator ends all other transactions: after the
    time-out of the producer, or when a new producer with the same transactional id starts.
    """
    where = TopicPartition(topic, partition)
    with _admin(cluster) as admin:
        aborted = admin.abort_transaction(where, offset, force)
    print(f"aborted the transaction of producer id {aborted.producer_id} at offset {offset} of {where}")


def _row(transaction: OpenTransaction) -> dict[str, Any]:
    return {
        "topic": transaction.partition.topic,
        "partition": transaction.partition.partition,
        "offset": transaction.start,
        "hangs": transaction.hangs,
        "transactional_id": transaction.transactional_id,
        "producer_id": transaction.producer_id,
        "producer_epoch": transaction.producer_epoch,
        "last_timestamp_ms": transaction.last_timestamp_ms,
        "timeout_ms": transaction.timeout_ms,
    }


def _time(timestamp_ms: int) -> str:
    return local_time(timestamp_ms / 1000)


def _admin(cluster: ClusterOptions) -> Admin:
    return Admin(**cluster.options(AdminConfig))
