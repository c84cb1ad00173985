"""``pyklient info``: show the installed versions and the kernel in use."""

import click

from pyklient.cli.installation import as_lines, facts
from pyklient.cli.tables import print_json

__all__ = ["info"]


@click.command(
    short_help="Show the version, the kernel in use and the codecs.", epilog="Example: pyklient info --json"
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def info(as_json: bool) -> None:
    """Show the version, the codecs and the kernel, which is the code that handles records. If this is not
    the compiled kernel, show the reason."""
    found = facts()
    if as_json:
        print_json(found)
    else:
        print("\n".join(as_lines(found)))
