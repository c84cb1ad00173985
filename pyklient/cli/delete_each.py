"""Deleting several things with one command: what can be deleted is, and each failure is told."""

from collections.abc import Callable, Sequence

import click

from pyklient.cli.standard_streams import complain
from pyklient.errors import BrokerError, KafkaError

__all__ = ["delete_each"]


def delete_each(names: Sequence[str], delete: Callable[[str], None]) -> None:
    """Call *delete* with each of *names*; one that the brokers refuse does not keep the others.

    Raises click's Exit with code 1 when at least one was refused, and ClickException, with the names that
    were not tried, for a failure that has nothing to do with the name, such as brokers out of reach.
    """
    refused = False
    for place, name in enumerate(names, 1):
        try:
            delete(name)
        except BrokerError as error:
            refused = True
            complain(str(error))
        except KafkaError as error:
            left = names[place:]
            raise click.ClickException(
                f"{error}; not tried: {', '.join(left)}" if left else str(error)
            ) from error
    if refused:
        raise click.exceptions.Exit(1)
