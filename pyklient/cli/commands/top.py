"""``pyklient top``: a live screen of the topics and groups of a cluster."""

import shutil
import sys
from collections.abc import Sequence
from dataclasses import asdict
from operator import attrgetter
from typing import Any, Final

import click

from pyklient.admin import Admin
from pyklient.argument_checks import IsolationLevel
from pyklient.cli.cluster_activity import Activity, ActivityReader
from pyklient.cli.cluster_options import ClusterOptions, cluster_options
from pyklient.cli.isolation_option import isolation_option
from pyklient.cli.live_screen import frame_options, local_time, watch
from pyklient.cli.parameter_checks import checked, text, topic_name
from pyklient.cli.tables import print_json, print_table
from pyklient.config import AdminConfig
from pyklient.counted import counted

__all__ = ["top"]

_OTHER_LINES: Final = 9
"""The number of lines on the screen of ``pyklient top`` that are not rows of its two tables."""


@click.command(
    epilog="""\b
Examples:
  pyklient top                                   all topics and groups, until Ctrl-C
  pyklient top clicks views -g billing           two topics and one group
  pyklient top --interval 10 -n 6 > activity     six frames, as lines of a file
  pyklient top --json | jq .topics               one JSON object for each frame
"""
)
@click.argument("topics", metavar="[TOPIC]…", callback=checked(topic_name), nargs=-1)
@click.option(
    "-g", "--group", "groups", callback=checked(text), multiple=True, help="Show only this group. Repeatable."
)
@isolation_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each frame.")
@frame_options
@cluster_options(AdminConfig)
def top(
    topics: tuple[str, ...],
    groups: tuple[str, ...],
    isolation_level: IsolationLevel,
    as_json: bool,
    interval: float,
    frames: int | None,
    cluster: ClusterOptions,
) -> None:
    """Show how fast records are written to topics, and how fast groups commit and how far they are behind.

    The busiest topics and the groups with the largest lag come first. Each rate is measured since the
    previous frame. In a pipe or a file, the frames follow one another; -n sets the number of frames after
    which the command ends.
    """
    with Admin(**cluster.options(AdminConfig)) as admin:
        reader = ActivityReader(admin, topics, groups, isolation_level)

        def show(found: Activity) -> None:
            if as_json:
                print_json(asdict(found))
            else:
                _show(found, cluster.where)

        watch(reader.read, show, interval, frames)


def _show(found: Activity, where: str) -> None:
    lag = sum(each.lag for each in found.groups)
    topics = counted(len(found.topics), "topic")
    print(f"{local_time(found.time)}  {where}: {topics}, lag of the groups {lag:,}")
    busiest = sorted(found.topics, key=lambda each: (-(each.rate or 0.0), each.topic))
    behind = sorted(found.groups, key=attrgetter("lag"), reverse=True)
    space = max(2, shutil.get_terminal_size().lines - _OTHER_LINES) if sys.stdout.isatty() else None
    first = None if space is None else max(space // 2, space - len(behind))
    _print_rows(
        ["topic", "partitions", "end", "records/s"],
        [(each.topic, each.partitions, each.end, _rate(each.rate)) for each in busiest],
        first,
    )
    _print_rows(
        ["group", "state", "topic", "lag", "committed/s", "lag growth/s"],
        [
            (each.group, each.state, each.topic, each.lag, _rate(each.rate), _rate(each.growth))
            for each in behind
        ],
        None if space is None or first is None else max(1, space - min(first, len(busiest))),
    )


def _print_rows(columns: Sequence[str], rows: Sequence[Sequence[Any]], limit: int | None) -> None:
    """Print at most *limit* rows as a table; all rows if *limit* is None."""
    if rows:
        print_table(columns, rows[:limit])
        if limit is not None and len(rows) > limit:
            print(f"… and {len(rows) - limit:,} more")


def _rate(value: float | None) -> float | None:
    return None if value is None else round(value, 1)
