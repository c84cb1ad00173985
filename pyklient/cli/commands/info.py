"""``pyklient info``: what is installed, for bug reports and for "why is it slow"."""

import click

from pyklient.cli.installation import as_lines, facts
from pyklient.cli.tables import print_json

__all__ = ["info"]


@click.command(short_help="Version, kernel in use, codecs.", epilog="Example: pyklient info --json")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def info(as_json: bool) -> None:
    """Version, kernel in use (and why not the compiled one), codecs."""
    found = facts()
    if as_json:
        print_json(found)
    else:
        print("\n".join(as_lines(found)))
