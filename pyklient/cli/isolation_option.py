"""The option ``--isolation-level`` of commands that show the lag of groups."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from pyklient.argument_checks import ISOLATION_LEVELS

__all__ = ["isolation_option"]

_Command = TypeVar("_Command", bound=Callable[..., Any])


def isolation_option(command: _Command) -> _Command:
    """Add the option ``--isolation-level`` to *command*."""
    return click.option(
        "--isolation-level",
        type=click.Choice(ISOLATION_LEVELS),
        default="read_uncommitted",
        show_default=True,
        help="The isolation level of the members. With read_committed, lag counts to the last stable offset.",
    )(command)
