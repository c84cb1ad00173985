"""``pyklient groups``: list, describe and delete groups."""

from dataclasses import asdict

import click

from pyklient.admin import Admin
from pyklient.cli.cluster_options import ClusterOptions, cluster_options
from pyklient.cli.delete_each import delete_each
from pyklient.cli.parameter_checks import checked, text
from pyklient.cli.tables import print_json, print_table
from pyklient.config import AdminConfig
from pyklient.topic_partition import TopicPartition

__all__ = ["groups"]


@click.group(
    epilog="""\b
Examples:
  pyklient groups list
  pyklient groups describe billing
"""
)
def groups() -> None:
    """List, describe and delete consumer groups."""


@groups.command("list", epilog="Example: pyklient groups list -b localhost:9092")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
@cluster_options(AdminConfig)
def list_(as_json: bool, cluster: ClusterOptions) -> None:
    """List the groups of all brokers, with their states."""
    with _admin(cluster) as admin:
        found = admin.groups()
    if as_json:
        print_json([asdict(group) for group in found])
    else:
        print_table(
            ["group", "state", "protocol type"], [(g.group_id, g.state, g.protocol_type) for g in found]
        )


@groups.command(epilog="Example: pyklient groups describe billing --json")
@click.argument("group", callback=checked(text))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@cluster_options(AdminConfig)
def describe(group: str, as_json: bool, cluster: ClusterOptions) -> None:
    """Show the state and the members of GROUP, and its lag in each partition."""
    with _admin(cluster) as admin:
        found = admin.describe_group(group)
        lags = admin.group_lag(group)
    owners = {tp: member for member in found.members for tp in member.assignment}
    rows: list[dict[str, object]] = []
    for tp in sorted({*lags, *owners}):
        progress, owner = lags.get(tp), owners.get(tp)
        rows.append(
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "committed": progress.committed if progress else None,
                "end": progress.end if progress else None,
                "lag": progress.lag if progress else None,
                "member": owner.member_id if owner else None,
                "client": owner.client_id if owner else None,
                "host": owner.host if owner else None,
            }
        )
    without_commit = [progress for progress in lags.values() if progress.committed is None]
    lag = sum(progress.lag for progress in lags.values())
    lag_without_commit = sum(progress.lag for progress in without_commit)
    if as_json:
        print_json(
            {
                "group": found.group_id,
                "state": found.state,
                "protocol": found.protocol,
                "coordinator": found.coordinator,
                "members": [
                    _member(each.member_id, each.client_id, each.host, each.assignment)
                    for each in found.members
                ],
                "partitions": rows,
                "lag": lag,
                "lag_without_commit": lag_without_commit,
            }
        )
        return
    print(
        f"{found.group_id}: {found.state}, {len(found.members)} members, "
        f"protocol {found.protocol or 'none'}, coordinator {found.coordinator}, lag {lag:,}"
    )
    if without_commit:
        print(
            f"The lag includes {lag_without_commit:,} in {len(without_commit)} partitions without a "
            "committed offset, counted from the start of the log"
        )
    if rows:
        print_table(list(rows[0]), [list(row.values()) for row in rows])


@groups.command(epilog="Example: pyklient groups delete billing")
@click.argument("names", metavar="GROUP…", callback=checked(text), nargs=-1, required=True)
@cluster_options(AdminConfig)
def delete(names: tuple[str, ...], cluster: ClusterOptions) -> None:
    """Delete groups with their offsets. A group that has members is not deleted, but the other groups are."""
    with _admin(cluster) as admin:
        delete_each(names, admin.delete_group)


def _admin(cluster: ClusterOptions) -> Admin:
    return Admin(**cluster.options(AdminConfig))


def _member(
    member_id: str, client_id: str, host: str, assignment: tuple[TopicPartition, ...]
) -> dict[str, object]:
    return {
        "member_id": member_id,
        "client_id": client_id,
        "host": host,
        "assignment": [{"topic": tp.topic, "partition": tp.partition} for tp in assignment],
    }
