"""``pyklient audit``: compare the records of topics in two clusters."""

from dataclasses import asdict
from datetime import datetime
from typing import Literal

import click

from pyklient.cli.named_clusters import from_option, options_of, to_option
from pyklient.cli.parameter_checks import checked, moment, text
from pyklient.cli.standard_streams import complain
from pyklient.cli.tables import print_json, print_table
from pyklient.config import ConsumerConfig
from pyklient.mirror.cluster_audit import AuditRow
from pyklient.mirror.cluster_audit import audit as compare

__all__ = ["audit"]


@click.command(
    short_help="Compare topics in two clusters.",
    epilog="""\b
Examples:
  pyklient audit --from old:9092 --to new:9092 'clicks|views.*'
  pyklient audit --from old:9092 --to new:9092 clicks --since 2025-03-01 --until 2025-03-02
  pyklient audit --from old:9092 --to new:9092 clicks --by topic --json
""",
)
@click.argument("topics", metavar="REGEX", callback=checked(text))
@from_option(
    "Brokers of the source cluster, or a file of consumer options, one name=value in a line.",
)
@to_option("Brokers of the target cluster, or a file of consumer options.")
@click.option(
    "--since",
    metavar="TIME",
    callback=checked(moment),
    help="Compare only records of this time or later. Without a zone, TIME is in UTC.",
)
@click.option(
    "--until",
    metavar="TIME",
    callback=checked(moment),
    help="Compare only records before this time. Without a zone, TIME is in UTC.",
)
@click.option(
    "--by",
    type=click.Choice(["partition", "topic"]),
    default="partition",
    show_default=True,
    help="Compare partitions in their order, or topics whose records may be in any order and partition.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
def audit(
    topics: str,
    source: str,
    target: str,
    since: datetime | None,
    until: datetime | None,
    by: Literal["partition", "topic"],
    as_json: bool,
) -> int:
    """Compare the topics whose whole name matches REGEX in two clusters. The command compares the number of
    records, and digests of their keys, values, headers and timestamps.

    The exit code is 0 if all topics are equal, and 1 if there is a difference.
    """
    rows = compare(
        options_of(source, ConsumerConfig),
        options_of(target, ConsumerConfig),
        topics,
        since=since,
        until=until,
        by=by,
        on_progress=lambda side, topic, records: complain(f"{records:,} records of {topic} in the {side}"),
    )
    if as_json:
        print_json([_as_json(row) for row in rows])
    else:
        print_table(
            ("topic", "partition", *_columns("records"), *_columns("bytes"), "result"),
            [
                (
                    row.topic,
                    row.partition,
                    row.source.records,
                    row.target.records,
                    row.source.bytes,
                    row.target.bytes,
                    row.difference or "equal",
                )
                for row in rows
            ],
        )
    return 0 if all(row.equal for row in rows) else 1


def _columns(what: str) -> tuple[str, str]:
    return f"source {what}", f"target {what}"


def _as_json(row: AuditRow) -> dict[str, object]:
    return asdict(row) | {"equal": row.equal, "difference": row.difference}
