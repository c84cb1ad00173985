"""``pyklient offsets translate``: let a group continue in a mirrored cluster."""

import click

from pyklient.cli.named_clusters import from_option, options_of, to_option
from pyklient.cli.offset_changes import say_what_changed
from pyklient.cli.parameter_checks import checked, text
from pyklient.cli.standard_streams import complain
from pyklient.cli.tables import print_json, print_table
from pyklient.config import ConsumerConfig
from pyklient.mirror.group_translation import TranslatedOffset, translate_offsets

__all__ = ["translate"]


@click.command(
    epilog="""\b
Examples:
  pyklient offsets translate billing --from old:9092 --to new:9092 --mirror-group mirror
  pyklient offsets translate billing --from old:9092 --to new:9092 --mirror-group mirror --execute
"""
)
@click.argument("group", callback=checked(text))
@from_option(
    "Brokers of the cluster in which GROUP has committed its offsets, or a file of consumer options.",
)
@to_option("Brokers of the mirrored cluster, or a file of consumer options.")
@click.option(
    "--mirror-group",
    metavar="NAME",
    callback=checked(text),
    required=True,
    help="The group of the mirror that copies from the one cluster to the other with --groups.",
)
@click.option("--execute", is_flag=True, help="Commit the offsets. Without it, they are only shown.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
def translate(group: str, source: str, target: str, mirror_group: str, execute: bool, as_json: bool) -> None:
    """Translate the committed offsets of GROUP to the offsets that the same records have in a mirrored
    cluster. Commit the translated offsets in that cluster, so that GROUP continues there and skips no record.

    GROUP must have no members in the mirrored cluster. An offset is never made smaller. Without --execute,
    nothing is changed.
    """
    found = translate_offsets(
        options_of(source, ConsumerConfig),
        options_of(target, ConsumerConfig),
        group,
        mirror_group,
        execute=execute,
    )
    rows = [
        (each.topic, each.partition, at.source, at.committed, at.translated, _note(at))
        for each, at in sorted(found.items())
    ]
    names = ("topic", "partition", "source", "committed", "translated", "note")
    if as_json:
        print_json([dict(zip(names, row, strict=True)) for row in rows])
    else:
        print_table(names, rows)
    if execute:
        changed = sum(each.moves for each in found.values())
        say_what_changed(group, changed, len(found) - changed)
    else:
        complain("nothing was changed; --execute commits the translated offsets")


def _note(offset: TranslatedOffset) -> str:
    if offset.ahead:
        return "the group is ahead, so its offset stays"
    return "" if offset.moves else "already committed"
