"""Shows a group: the facts about it as a JSON object, and the same facts as tables."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from pyklient.admin import GroupDescription, PartitionLag, ZooKeeperGroupDescription
from pyklient.cli.tables import print_table
from pyklient.counted import counted
from pyklient.registry.subscription_patterns import STATIC
from pyklient.topic_partition import TopicPartition

__all__ = ["Facts", "group_facts", "print_group", "print_zookeeper_group", "zookeeper_group_facts"]

Facts: TypeAlias = dict[str, Any]
"""The facts about a group, as a JSON object."""


def group_facts(group: GroupDescription, lags: Mapping[TopicPartition, PartitionLag]) -> Facts:
    """Return the facts about a group that a broker coordinates."""
    owners = {tp: member for member in group.members for tp in member.assignment}
    rows: list[Facts] = []
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
    members = [
        {
            "member_id": each.member_id,
            "client_id": each.client_id,
            "host": each.host,
            "assignment": _partitions(each.assignment),
        }
        for each in group.members
    ]
    return {
        "group": group.group_id,
        "coordination": "kafka",
        "state": group.state,
        "protocol": group.protocol,
        "coordinator": group.coordinator,
        "members": members,
        "partitions": rows,
        "lag": sum(each.lag for each in lags.values()),
        "lag_without_commit": sum(each.lag for each in lags.values() if each.committed is None),
    }


def print_group(facts: Facts) -> None:
    """Print the facts about a group that a broker coordinates."""
    print(
        f"{facts['group']}: {facts['state']}, {counted(len(facts['members']), 'member')}, "
        f"protocol {facts['protocol'] or 'none'}, coordinator {facts['coordinator']}, lag {_lag(facts)}"
    )
    _print_lag_without_commit(facts)
    _print_rows(facts["partitions"])


def zookeeper_group_facts(group: ZooKeeperGroupDescription) -> Facts:
    """Return the facts about a group that is coordinated through ZooKeeper."""
    rows = [
        {
            "topic": tp.topic,
            "partition": tp.partition,
            "zookeeper": each.zookeeper_offset,
            "kafka": each.kafka_offset,
            "committed": each.committed,
            "end": each.end,
            "lag": each.lag,
            "owner": each.owner,
            "error": each.error,
        }
        for tp, each in group.partitions.items()
    ]
    members = [
        {
            "consumer_id": each.consumer_id,
            "host": each.host,
            "pattern": each.pattern,
            "subscription": dict(each.subscription),
            "assignment": _partitions(each.assignment),
            "error": each.error,
        }
        for each in group.members
    ]
    progress = group.partitions.values()
    return {
        "group": group.group_id,
        "coordination": "zookeeper",
        "state": group.state,
        "members": members,
        "partitions": rows,
        "errors": list(group.errors),
        "lag": sum(each.lag or 0 for each in progress),
        "lag_without_commit": sum(each.lag or 0 for each in progress if each.committed is None),
    }


def print_zookeeper_group(facts: Facts) -> None:
    """Print the facts about a group that is coordinated through ZooKeeper."""
    print(
        f"{facts['group']}: {facts['state']}, {counted(len(facts['members']), 'member')}, "
        f"coordinated through ZooKeeper, lag {facts['lag']:,}"
    )
    _print_lag_without_commit(facts)
    for error in facts["errors"]:
        print(error)
    if facts["members"]:
        print_table(
            ["member", "host", "streams"],
            [(each["consumer_id"], each["host"], _streams(each)) for each in facts["members"]],
        )
    hidden = {"committed"}  # it is one of two other columns
    if not any(row["error"] for row in facts["partitions"]):
        hidden.add("error")
    _print_rows([{key: row[key] for key in row if key not in hidden} for row in facts["partitions"]])


def _lag(facts: Facts) -> str:
    """Return the lag of a group as text. The text is ``-`` if no partition has a committed offset: the group
    may keep its positions elsewhere, such as in an offset store."""
    return f"{facts['lag']:,}" if _has_commit(facts) else "-"


def _has_commit(facts: Facts) -> bool:
    return any(row["committed"] is not None for row in facts["partitions"])


def _print_lag_without_commit(facts: Facts) -> None:
    rows = [row for row in facts["partitions"] if row["lag"] is not None and row["committed"] is None]
    if rows and not _has_commit(facts):
        print("No partition has a committed offset, so each lag is counted from the start of the log")
    elif rows:
        print(
            f"The lag includes {facts['lag_without_commit']:,} in {counted(len(rows), 'partition')} without "
            "a committed offset, counted from the start of the log"
        )


def _print_rows(rows: Sequence[Facts]) -> None:
    if rows:
        print_table(list(rows[0]), [list(row.values()) for row in rows])


def _streams(member: Facts) -> str:
    """Return the topics of a member and the number of streams of each topic, as text such as ``clicks: 2,
    views: 1``. With a filter, ``white_list`` or ``black_list`` comes first. For a member with an error,
    return the error instead."""
    if member["error"] is not None:
        return str(member["error"])
    streams = ", ".join(f"{name}: {count}" for name, count in member["subscription"].items())
    return streams if member["pattern"] == STATIC else f"{member['pattern']} {streams}"


def _partitions(assignment: Iterable[TopicPartition]) -> list[Facts]:
    return [{"topic": tp.topic, "partition": tp.partition} for tp in assignment]
