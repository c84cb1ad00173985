"""``pyklient topics``: list, create, delete and describe topics."""

import contextlib
from collections.abc import Iterator

import click

from pyklient.admin import Admin
from pyklient.cli.cluster_options import ClusterOptions, cluster_options
from pyklient.cli.delete_each import delete_each
from pyklient.cli.parameter_checks import checked, text, topic_name
from pyklient.cli.tables import print_json, print_table
from pyklient.config import AdminConfig
from pyklient.errors import BrokerError
from pyklient.topic_partition import TopicPartition

__all__ = ["topics"]


@click.group(
    epilog="""\b
Examples:
  pyklient topics create clicks --partitions 8
  pyklient topics describe clicks
"""
)
def topics() -> None:
    """List, create, delete and describe topics."""


@topics.command("list", epilog="Example: pyklient topics list -b localhost:9092")
@click.option("--internal", is_flag=True, help="Include internal topics, such as __consumer_offsets.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
@cluster_options(AdminConfig)
def list_(internal: bool, as_json: bool, cluster: ClusterOptions) -> None:
    """Print the names of the topics, one in a line."""
    with _admin(cluster) as admin:
        names = admin.topics(internal=internal)
    if as_json:
        print_json(names)
    else:
        for name in names:
            print(name)


@topics.command(
    epilog="""\b
Example:
  pyklient topics create clicks --partitions 8 --replication-factor 3 --set retention.ms=86400000
"""
)
@click.argument("topic", callback=checked(topic_name))
@click.option(
    "-p",
    "--partitions",
    type=int,
    default=1,
    show_default=True,
    help="Partitions; -1 means the default of the cluster.",
)
@click.option(
    "-r",
    "--replication-factor",
    type=int,
    default=1,
    show_default=True,
    help="Replicas of each partition; -1 means the default of the cluster.",
)
@click.option(
    "--set",
    "given",
    metavar="NAME=VALUE",
    callback=checked(text),
    multiple=True,
    help="A setting of the topic. Repeatable.",
)
@click.option("--if-not-exists", is_flag=True, help="Succeed if the topic exists, whatever its partitions.")
@cluster_options(AdminConfig)
def create(
    topic: str,
    partitions: int,
    replication_factor: int,
    given: tuple[str, ...],
    if_not_exists: bool,
    cluster: ClusterOptions,
) -> None:
    """Create TOPIC. The command ends when each partition has a leader."""
    config = dict(_setting(pair) for pair in given)
    with _admin(cluster) as admin, _fine_if(if_not_exists, "TOPIC_ALREADY_EXISTS"):
        admin.create_topic(topic, partitions, replication_factor, config)


@topics.command(epilog="Example: pyklient topics delete clicks views --if-exists")
@click.argument("names", metavar="TOPIC…", callback=checked(topic_name), nargs=-1, required=True)
@click.option("--if-exists", is_flag=True, help="Succeed if there is no such topic.")
@cluster_options(AdminConfig)
def delete(names: tuple[str, ...], if_exists: bool, cluster: ClusterOptions) -> None:
    """Delete topics with all their messages. If a topic cannot be deleted, the other topics still are."""
    with _admin(cluster) as admin:

        def delete_topic(name: str) -> None:
            with _fine_if(if_exists, "UNKNOWN_TOPIC_OR_PARTITION"):
                admin.delete_topic(name)

        delete_each(names, delete_topic)


@topics.command(epilog="Example: pyklient topics describe clicks --json")
@click.argument("topic", callback=checked(topic_name))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@cluster_options(AdminConfig)
def describe(topic: str, as_json: bool, cluster: ClusterOptions) -> None:
    """Show the partitions of TOPIC with leaders, replicas and offsets, and the settings that were given to
    TOPIC."""
    with _admin(cluster) as admin:
        found = admin.describe_topic(topic)
        partitions = [TopicPartition(topic, part.partition) for part in found.partitions]
        starts, ends = admin.start_offsets(partitions), admin.end_offsets(partitions)
    rows = [
        {
            "partition": part.partition,
            "leader": part.leader,
            "replicas": list(part.replicas),
            "isr": list(part.isr),
            "start": starts[TopicPartition(topic, part.partition)],
            "end": ends[TopicPartition(topic, part.partition)],
        }
        for part in found.partitions
    ]
    if as_json:
        topic_id = None if found.topic_id is None else str(found.topic_id)
        print_json({"name": found.name, "id": topic_id, "config": found.config, "partitions": rows})
        return
    print_table(list(rows[0]), [[_listed(value) for value in row.values()] for row in rows])
    if found.config:
        print_table(["setting", "value"], sorted(found.config.items()))


def _admin(cluster: ClusterOptions) -> Admin:
    return Admin(**cluster.options(AdminConfig))


def _setting(pair: str) -> tuple[str, str]:
    name, equals, value = pair.partition("=")
    if not equals:
        raise click.UsageError(f"--set {pair}: a setting must be name=value, such as retention.ms=86400000")
    return name, value


def _listed(value: object) -> object:
    return ",".join(map(str, value)) if isinstance(value, list) else value


@contextlib.contextmanager
def _fine_if(accepted: bool, name: str) -> Iterator[None]:
    try:
        yield
    except BrokerError as error:
        if not accepted or error.name != name:
            raise
