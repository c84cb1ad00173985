"""``pyklient offsets``: show, reset, export, import and copy the committed offsets of a group."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import click

from pyklient import argument_checks
from pyklient.admin import Admin, OffsetCopy, OffsetReset, StoredOffsets
from pyklient.cli.cluster_options import ClusterOptions, cluster_options
from pyklient.cli.live_screen import frame_options, watch
from pyklient.cli.offset_changes import say_what_changed
from pyklient.cli.offset_files import csv_lines, json_rows, parse_offsets
from pyklient.cli.parameter_checks import ago, checked, moment, text
from pyklient.cli.standard_streams import complain
from pyklient.cli.tables import print_json, print_table
from pyklient.config import AdminConfig
from pyklient.counted import counted
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["offsets"]

Storage = Literal["kafka", "zookeeper"]


@click.group(
    epilog="""\b
Examples:
  pyklient offsets show billing
  pyklient offsets reset billing --to-datetime 2026-03-01T00:00:00Z
  pyklient offsets reset billing --to-datetime 2026-03-01T00:00:00Z --execute
"""
)
def offsets() -> None:
    """Show and change the committed offsets of consumer groups."""


def _topic_or_partitions(given: str) -> list[str | TopicPartition]:
    """Return the topic or the partitions in *given*: ``TOPIC`` or ``TOPIC:0,1``, as in Kafka's own tool."""
    topic, colon, numbers = given.partition(":")
    argument_checks.topic_name(topic)
    if not colon:
        return [topic]
    if not all(each.isascii() and each.isdigit() and len(each) < 10 for each in numbers.split(",")):
        raise ValueError(f"{given!r} is neither TOPIC nor TOPIC:0,1, where 0,1 are numbers of partitions")
    return [TopicPartition(topic, int(each)) for each in numbers.split(",")]


def _group_name(given: str) -> str:
    """Return *given*, the name of a group. Raises ValueError if it is empty, as from an unset variable."""
    if not given:
        raise ValueError("the name of the group must not be empty")
    return text(given)


_group = click.argument("group", callback=checked(_group_name))
_topics = click.option(
    "--topic",
    "topics",
    metavar="TOPIC[:0,1]",
    multiple=True,
    callback=checked(_topic_or_partitions),
    help="Only this topic, or only these partitions of it. Repeatable.",
)
_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
_storage = click.option(
    "--storage",
    type=click.Choice(["kafka", "zookeeper"]),
    help="Where the offsets are kept.  [each of the two where the group has offsets]",
)
_execute = click.option("--execute", is_flag=True, help="Do it. Without this, only show what would change.")


@offsets.command(epilog="Example: pyklient offsets show billing --zookeeper localhost:2181/kafka")
@_group
@_topics
@_json
@cluster_options(AdminConfig)
def show(
    group: str, topics: tuple[list[str | TopicPartition], ...], as_json: bool, cluster: ClusterOptions
) -> None:
    """Show the committed offsets of GROUP in Kafka, and the lag. With --zookeeper, show its offsets in
    ZooKeeper too."""
    with _admin(cluster) as admin:
        found = admin.stored_offsets(group, _flat(topics))
    if as_json:
        print_json([_facts(each, at) for each, at in found.items()])
    elif found:
        rows = [_facts(each, at) for each, at in found.items()]
        hidden = {"committed", "metadata"} | (
            {"error"} if all(row["error"] is None for row in rows) else set()
        )
        columns = [name for name in rows[0] if name not in hidden]
        print_table(columns, [[row[name] for name in columns] for row in rows])
    else:
        complain(f"group {group} has no committed offsets")


@offsets.command(
    epilog="""\b
Examples:
  pyklient offsets reset billing --to-earliest --topic invoices:0,1
  pyklient offsets reset billing --shift-by -100 --execute
  pyklient offsets reset billing --by-duration PT2H --execute
"""
)
@_group
@click.option("--to-earliest", is_flag=True, help="To the first record of each partition.")
@click.option("--to-latest", is_flag=True, help="To the end of each partition.")
@click.option("--to-current", is_flag=True, help="To the committed offset; the end if there is none.")
@click.option(
    "--to-datetime",
    metavar="TIME",
    callback=checked(moment),
    help="To the first record since TIME, such as 2026-03-01T00:00:00Z. Without a zone, TIME is in UTC.",
)
@click.option(
    "--by-duration",
    metavar="PnDTnHnMnS",
    callback=checked(ago),
    help="To the first record since so long ago, such as PT2H.",
)
@click.option("--to-offset", type=click.IntRange(0, argument_checks.INT64_MAX), help="To this offset.")
@click.option("--shift-by", type=int, metavar="N", help="N offsets ahead, or back if N is negative.")
@_topics
@_storage
@_execute
@_json
@cluster_options(AdminConfig)
def reset(
    group: str,
    to_earliest: bool,
    to_latest: bool,
    to_current: bool,
    to_datetime: datetime | None,
    by_duration: datetime | None,
    to_offset: int | None,
    shift_by: int | None,
    topics: tuple[list[str | TopicPartition], ...],
    storage: Storage | None,
    execute: bool,
    as_json: bool,
    cluster: ClusterOptions,
) -> None:
    """Move the committed offsets of GROUP, which must have no members.

    The command shows each offset before and after. Without --execute, nothing is changed. Give exactly one of
    the options that begin with --to, --by and --shift. If GROUP has members, nothing is changed, and the exit
    code is 1. With --execute, the same happens if GROUP has no committed offsets and no --topic is given.
    """
    targets: dict[str, Any] = {
        "--to-earliest": "earliest" if to_earliest else None,
        "--to-latest": "latest" if to_latest else None,
        "--to-current": "current" if to_current else None,
        "--to-datetime": to_datetime,
        "--by-duration": by_duration,
        "--to-offset": to_offset,
        "--shift-by": shift_by,
    }
    given = {name: value for name, value in targets.items() if value is not None}
    if len(given) != 1:
        listed = f"not {' and '.join(given)}" if given else f"one of {', '.join(targets)}"
        raise click.UsageError(f"give exactly one option that says where to move the offsets: {listed}")
    with _admin(cluster) as admin:
        done = _reset(
            admin,
            group,
            execute,
            to=None if shift_by is not None else next(iter(given.values())),
            shift_by=shift_by,
            topics=_flat(topics),
            storage=storage,
        )
    _show_reset(done, execute=execute, as_json=as_json)


@offsets.command(epilog="Example: pyklient offsets export billing > billing.csv")
@_group
@_topics
@_storage
@_json
@cluster_options(AdminConfig)
def export(
    group: str,
    topics: tuple[list[str | TopicPartition], ...],
    storage: Storage | None,
    as_json: bool,
    cluster: ClusterOptions,
) -> None:
    """Print the committed offsets of GROUP as lines topic,partition,offset, for import.

    Kafka's own tool reads these lines with --from-file. If the offsets in Kafka and in ZooKeeper differ, the
    larger one is printed, unless --storage names one of the two. If there are no offsets, the exit code is 1.
    """
    with _admin(cluster) as admin:
        found = admin.stored_offsets(group, _flat(topics))
    chosen = {}
    for each, at in found.items():
        offset = at.committed if storage is None else at.of(storage)
        if offset is not None:
            same = at.kafka is not None and at.kafka.offset == offset and storage != "zookeeper"
            chosen[each] = OffsetAndMetadata(offset, at.kafka.metadata if same and at.kafka else "")
    if as_json:
        print_json(json_rows(chosen))
    else:
        print(csv_lines(chosen), end="")
    if not chosen:
        raise click.ClickException(f"group {group} has no committed offsets; check its name")


@offsets.command("import", epilog="Example: pyklient offsets import billing billing.csv --execute")
@_group
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path))
@_storage
@_execute
@_json
@cluster_options(AdminConfig)
def import_(
    group: str, file: Path, storage: Storage | None, execute: bool, as_json: bool, cluster: ClusterOptions
) -> None:
    """Set the committed offsets of GROUP to the offsets in FILE. If FILE is -, read standard input.

    FILE has lines topic,partition,offset or group,topic,partition,offset, as Kafka's own tool writes them, or
    the JSON that export prints. GROUP must have no members. Without --execute, nothing is changed.
    """
    with click.open_file(str(file), "rb") as opened:
        content = opened.read()
    try:
        wanted = parse_offsets(content, group)
    except ValueError as error:
        raise click.UsageError(f"cannot read {file}: {error}") from None
    with _admin(cluster) as admin:
        done = _reset(admin, group, execute, to=wanted, storage=storage)
    _show_reset(done, execute=execute, as_json=as_json)


@offsets.command(
    epilog="""\b
Examples:
  pyklient offsets copy billing --to kafka --zookeeper localhost:2181/kafka
  pyklient offsets copy billing --to kafka --zookeeper localhost:2181/kafka --execute --follow
"""
)
@_group
@click.option(
    "--to", type=click.Choice(["kafka", "zookeeper"]), required=True, help="Where to copy the offsets."
)
@_topics
@click.option("--lower", is_flag=True, help="Also replace offsets that are larger than those to copy.")
@_execute
@click.option("--follow", is_flag=True, help="Copy again and again, until Ctrl-C.")
@frame_options
@_json
@cluster_options(AdminConfig)
def copy(
    group: str,
    to: Storage,
    topics: tuple[list[str | TopicPartition], ...],
    lower: bool,
    execute: bool,
    follow: bool,
    interval: float,
    frames: int | None,
    as_json: bool,
    cluster: ClusterOptions,
) -> None:
    """Copy the committed offsets of GROUP from ZooKeeper to Kafka, or from Kafka to ZooKeeper.

    The members of the group may run meanwhile. Copy from the storage to which they commit. Larger offsets in
    the other storage stay as they are, and the exit code is then 1. Without --execute, nothing is changed.
    """
    if follow and not execute:
        raise click.UsageError(
            "--follow works only together with --execute; add --execute, or remove --follow"
        )
    done: dict[TopicPartition, OffsetCopy] = {}

    def again() -> dict[TopicPartition, OffsetCopy]:
        done.update(admin.copy_offsets(group, to, topics=_flat(topics), lower=lower, execute=execute))
        return done

    with _admin(cluster) as admin:
        watch(
            again, lambda found: _show_copies(to, found, as_json=as_json), interval, frames if follow else 1
        )
    source = _name("kafka" if to == "zookeeper" else "zookeeper")
    if ahead := [str(each) for each, at in done.items() if at.ahead]:
        raise click.ClickException(
            f"{counted(len(ahead), 'offset')} in {_name(to)} did not change, because the "
            f"{source} offset is smaller: {', '.join(ahead)}; to copy smaller offsets too, add --lower"
        )
    if not done:
        complain(f"group {group} has no offsets in {source}")
    elif not execute:
        _say_that_nothing_changed()


def _flat(topics: Iterable[list[str | TopicPartition]]) -> list[str | TopicPartition]:
    return [each for several in topics for each in several]


def _admin(cluster: ClusterOptions) -> Admin:
    return Admin(**cluster.options(AdminConfig))


def _reset(admin: Admin, group: str, execute: bool, **wanted: Any) -> OffsetReset:
    """Return the reset of *group* that the arguments *wanted* describe. It is carried out if *execute* is
    true and the group has no members."""
    plan = admin.reset_offsets(group, **wanted)
    if not execute or plan.members:
        return plan
    return admin.reset_offsets(group, **wanted, execute=True)


def _facts(partition: TopicPartition, stored: StoredOffsets) -> dict[str, Any]:
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "kafka": stored.of("kafka"),
        "zookeeper": stored.zookeeper,
        "committed": stored.committed,
        "metadata": stored.kafka.metadata if stored.kafka is not None else "",
        "start": stored.start,
        "end": stored.end,
        "lag": stored.lag,
        "error": stored.error,
    }


def _show_reset(done: OffsetReset, *, execute: bool, as_json: bool) -> None:
    rows = [
        {
            "topic": each.topic,
            "partition": each.partition,
            **{name: change.before.of(name) for name in done.storage},
            "new": change.after.offset,
            "note": change.note,
        }
        for each, change in done.changes.items()
    ]
    if as_json:
        print_json(rows)
    elif rows:
        hidden = {"note"} if all(row["note"] is None for row in rows) else set()
        columns = [name for name in rows[0] if name not in hidden]
        print_table(columns, [[row[name] for name in columns] for row in rows])
    if not rows:
        nothing = (
            f"nothing was changed: group {done.group_id} has no committed offsets; check its name, or name "
            "topics with --topic"
        )
        if execute:
            raise click.ClickException(nothing)
        complain(nothing)
        return
    if done.members:
        raise click.ClickException(
            f"nothing was changed: group {done.group_id} has {counted(done.members, 'member')}. Stop all "
            "members, and repeat the command with --execute"
        )
    if not done.executed:
        _say_that_nothing_changed()
        return
    changed = sum(
        any(change.before.of(name) != change.after.offset for name in done.storage)
        for change in done.changes.values()
    )
    say_what_changed(done.group_id, changed, len(rows) - changed)


def _show_copies(to: Storage, done: Mapping[TopicPartition, OffsetCopy], *, as_json: bool) -> None:
    source = "kafka" if to == "zookeeper" else "zookeeper"
    rows = [
        {
            "topic": each.topic,
            "partition": each.partition,
            source: at.source,
            f"{to} before": at.before,
            f"{to} after": at.after,
        }
        for each, at in done.items()
    ]
    if as_json:
        print_json(rows)
    elif rows:
        print_table(list(rows[0]), [list(row.values()) for row in rows])


def _say_that_nothing_changed() -> None:
    complain("nothing was changed; --execute makes these changes")


def _name(storage: Storage) -> str:
    return "Kafka" if storage == "kafka" else "ZooKeeper"
