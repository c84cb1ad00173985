"""``pyklient groups``: list, describe and delete groups."""

import time
from dataclasses import asdict
from functools import partial
from typing import Literal

import click
from click.core import ParameterSource

from pyklient.admin import Admin
from pyklient.argument_checks import IsolationLevel
from pyklient.cli.cluster_options import ClusterOptions, cluster_options
from pyklient.cli.delete_each import delete_each
from pyklient.cli.group_tables import (
    Facts,
    group_facts,
    print_group,
    print_zookeeper_group,
    zookeeper_group_facts,
)
from pyklient.cli.isolation_option import isolation_option
from pyklient.cli.live_screen import frame_options, local_time, watch
from pyklient.cli.parameter_checks import checked, text
from pyklient.cli.tables import print_json, print_table
from pyklient.config import AdminConfig
from pyklient.errors import NoNodeError

__all__ = ["groups"]


@click.group(
    epilog="""\b
Examples:
  pyklient groups list
  pyklient groups describe billing
  pyklient groups describe billing --zookeeper localhost:2181/kafka
"""
)
def groups() -> None:
    """List, describe and delete consumer groups."""


@groups.command("list", epilog="Example: pyklient groups list -b localhost:9092")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
@cluster_options(AdminConfig)
def list_(as_json: bool, cluster: ClusterOptions) -> None:
    """List the groups of all brokers with their states. With --zookeeper, list the groups in ZooKeeper
    too."""
    with _admin(cluster) as admin:
        found = admin.groups()
    if as_json:
        print_json([asdict(group) for group in found])
    else:
        print_table(
            ["group", "state", "protocol type", "coordination"],
            [(g.group_id, g.state, g.protocol_type, g.coordination) for g in found],
        )


@groups.command(
    epilog="""\b
Examples:
  pyklient groups describe billing --json
  pyklient groups describe billing --watch --interval 5
"""
)
@click.argument("group", callback=checked(text))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@isolation_option
@click.option("-w", "--watch", "watches", is_flag=True, help="Show the group again and again, until Ctrl-C.")
@frame_options
@cluster_options(AdminConfig)
def describe(
    group: str,
    as_json: bool,
    isolation_level: IsolationLevel,
    watches: bool,
    interval: float,
    frames: int | None,
    cluster: ClusterOptions,
) -> None:
    """Show the state and the members of GROUP, and its lag in each partition.

    With --zookeeper, show a group that is coordinated through ZooKeeper. If brokers coordinate a group of the
    same name, show that group too.
    """
    given = click.get_current_context().get_parameter_source
    for name, option in (("frames", "-n"), ("interval", "--interval")):
        if not watches and given(name) is not ParameterSource.DEFAULT:
            raise click.UsageError(
                f"{option} works only together with --watch; add --watch, or remove {option}"
            )
    options = cluster.options(AdminConfig)
    with_zookeeper = options.get("zookeeper") is not None
    with Admin(**options) as admin:
        watch(
            lambda: _facts(admin, group, isolation_level, with_zookeeper=with_zookeeper),
            lambda facts: _show(*facts, as_json=as_json, with_time=watches),
            interval,
            frames if watches else 1,
        )


@groups.command(
    epilog="""\b
Examples:
  pyklient groups delete billing
  pyklient groups delete billing --coordination zookeeper --zookeeper localhost:2181/kafka
"""
)
@click.argument("names", metavar="GROUP…", callback=checked(text), nargs=-1, required=True)
@click.option(
    "--coordination",
    type=click.Choice(["kafka", "zookeeper"]),
    default="kafka",
    show_default=True,
    help="Delete groups that brokers coordinate, or groups in ZooKeeper.",
)
@cluster_options(AdminConfig)
def delete(
    names: tuple[str, ...], coordination: Literal["kafka", "zookeeper"], cluster: ClusterOptions
) -> None:
    """Delete groups with their offsets. A group that has members is not deleted, but the other groups are
    deleted.

    For a group in ZooKeeper, the offsets there are deleted. Offsets that it has committed to Kafka stay: they
    belong to the group of the same name that brokers coordinate.
    """
    with _admin(cluster) as admin:
        delete_each(names, partial(admin.delete_group, coordination=coordination))


def _show(in_zookeeper: Facts | None, in_kafka: Facts | None, *, as_json: bool, with_time: bool) -> None:
    if as_json:
        print_json(in_kafka if in_zookeeper is None else {**in_zookeeper, "kafka": in_kafka})
        return
    if with_time:
        print(local_time(time.time()))
    if in_zookeeper is not None:
        print_zookeeper_group(in_zookeeper)
    if in_kafka is not None:
        print_group(in_kafka)


def _admin(cluster: ClusterOptions) -> Admin:
    return Admin(**cluster.options(AdminConfig))


def _in_kafka(admin: Admin, group: str, isolation_level: IsolationLevel) -> Facts:
    return group_facts(admin.describe_group(group), admin.group_lag(group, isolation_level=isolation_level))


def _facts(
    admin: Admin, group: str, isolation_level: IsolationLevel, *, with_zookeeper: bool
) -> tuple[Facts | None, Facts | None]:
    """Return the facts about *group* in ZooKeeper, and the facts about the group of that name at the brokers.

    The first is None without *with_zookeeper*, or if ZooKeeper has no such group. The second is None if the
    brokers have no such group. It is also None if both groups exist but the brokers' group has no members,
    because the facts about the group in ZooKeeper then include the offsets of the brokers' group.
    """
    if not with_zookeeper:
        return None, _in_kafka(admin, group, isolation_level)
    try:
        in_zookeeper = zookeeper_group_facts(admin.describe_zookeeper_group(group))
        missing = None
    except NoNodeError as error:
        in_zookeeper, missing = None, error
    if group not in [each.group_id for each in admin.groups(coordination="kafka")]:
        if missing is not None:
            raise NoNodeError(f"{missing}. No broker has a group of this name either") from missing
        return in_zookeeper, None
    in_kafka = _in_kafka(admin, group, isolation_level)
    return in_zookeeper, in_kafka if in_zookeeper is None or in_kafka["members"] else None
