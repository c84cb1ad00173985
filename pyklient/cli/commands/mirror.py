"""``pyklient mirror``: copy topics from one or several clusters to another."""

import sys

import click

from pyklient.cli.named_clusters import from_option, options_of, to_option
from pyklient.cli.parameter_checks import checked, text
from pyklient.config import ConsumerConfig, ProducerConfig
from pyklient.consumer.topic_filters.topic_filter import Blacklist, TopicFilter, Whitelist
from pyklient.mirror.mirror import Mirror
from pyklient.mirror.mirror_metrics import MirrorMetrics

__all__ = ["mirror"]


@click.command(
    short_help="Copy topics to another cluster.",
    epilog="""\b
Examples:
  pyklient mirror --from old:9092 --to new:9092 -g mirror --whitelist 'clicks|views.*'
  pyklient mirror --from @old.properties --to new:9092 -g mirror --blacklist 'test-.*' --keep-partitions
""",
)
@from_option(
    "Brokers of a source cluster, or a file of consumer options, one name=value in a line. Repeatable.",
    repeatable=True,
)
@to_option("Brokers of the target cluster, or a file of producer options.")
@click.option(
    "-g",
    "--group",
    metavar="NAME",
    callback=checked(text),
    required=True,
    help="The group in the source clusters. Processes with the same group share the work.",
)
@click.option(
    "--whitelist", metavar="REGEX", callback=checked(text), help="Copy the topics whose whole name matches."
)
@click.option(
    "--blacklist",
    metavar="REGEX",
    callback=checked(text),
    help="Copy the topics whose whole name does not match.",
)
@click.option(
    "--keep-partitions", is_flag=True, help="Send each record to the partition that it has in the source."
)
@click.option("--no-create", is_flag=True, help="Create no topics, and add no partitions.")
@click.option("--drop-failed", is_flag=True, help="Drop records that cannot be sent, and go on.")
@click.option(
    "--commit-interval",
    metavar="SECONDS",
    type=click.FloatRange(0, 3600),
    default=5.0,
    show_default=True,
    help="Time between two commits of offsets in the source clusters.",
)
@click.option(
    "--groups",
    metavar="REGEX",
    callback=checked(text),
    help="Translate the offsets of the groups whose whole name matches, and commit them in the target "
    "cluster. Needs --keep-partitions.",
)
@click.option(
    "--group-interval",
    metavar="SECONDS",
    type=click.FloatRange(0, 3600),
    default=10.0,
    show_default=True,
    help="Time between two translations of the offsets of groups.",
)
@click.option(
    "--interval",
    metavar="SECONDS",
    type=click.FloatRange(0.1, 3600),
    default=10.0,
    show_default=True,
    help="Time between two lines about the progress.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print no progress on standard error.")
def mirror(
    sources: tuple[str, ...],
    target: str,
    group: str,
    whitelist: str | None,
    blacklist: str | None,
    keep_partitions: bool,
    no_create: bool,
    drop_failed: bool,
    commit_interval: float,
    groups: str | None,
    group_interval: float,
    interval: float,
    quiet: bool,
) -> None:
    """Copy topics from one or several clusters to another, until Ctrl-C or SIGTERM.

    Keys, values, headers and timestamps are copied as they are. Offsets are committed in the source cluster
    only after the target cluster has confirmed the records, so the command continues where its last run
    ended.
    """
    _check_groups(groups, sources, keep_partitions=keep_partitions)
    Mirror(
        [options_of(each, ConsumerConfig) for each in sources],
        options_of(target, ProducerConfig),
        _filter(whitelist, blacklist),
        group_id=group,
        keep_partitions=keep_partitions,
        create_topics=not no_create,
        abort_on_send_failure=not drop_failed,
        commit_interval=commit_interval,
        groups=groups,
        group_interval=group_interval,
    ).run(None if quiet else _show, interval)


def _show(metrics: MirrorMetrics) -> None:
    """Print a line about the progress of the mirror."""
    done, lag = metrics.copied, metrics.lag
    line = (
        f"{done.records:,} records copied, {done.records_per_second:,.0f} records/s, "
        f"{done.bytes_per_second / 1e6:,.1f} MB/s, lag {'unknown' if lag is None else f'{lag:,}'}"
    )
    if metrics.dropped_records:
        line += f", {metrics.dropped_records:,} dropped"
    print(line, file=sys.stderr, flush=True)


def _check_groups(groups: str | None, sources: tuple[str, ...], *, keep_partitions: bool) -> None:
    if groups is None:
        return
    if not keep_partitions:
        raise click.UsageError(
            "--groups works only together with --keep-partitions; add --keep-partitions, or remove --groups"
        )
    if len(sources) > 1:
        raise click.UsageError("--groups works with only one --from; run one mirror for each source cluster")


def _filter(whitelist: str | None, blacklist: str | None) -> TopicFilter:
    if (whitelist is None) == (blacklist is None):
        raise click.UsageError("pass either --whitelist or --blacklist")
    if not (whitelist or blacklist):
        raise click.UsageError(
            "the pattern of the topics is empty; to copy all topics, pass --whitelist '.*'"
        )
    return Whitelist(whitelist) if whitelist is not None else Blacklist(blacklist or "")
