"""Deletes several topics or groups with one command. If one of them cannot be deleted, the others are deleted
nevertheless."""

from collections.abc import Callable, Sequence

import click

from pyklient.cli.standard_streams import complain
from pyklient.errors import BrokerError, KafkaError, NoNodeError

__all__ = ["delete_each"]


def delete_each(names: Sequence[str], delete: Callable[[str], None]) -> None:
    """Call *delete* with each of *names*, and print an error for each name that cannot be deleted.

    Raises click's Exit with code 1 if such an error was printed. Some failures do not depend on the name,
    such as a failure to reach the brokers. After one of these, this function stops and raises a
    ClickException with the names that were not tried.
    """
    refused = False
    for number, name in enumerate(names, 1):
        try:
            delete(name)
        except (BrokerError, NoNodeError) as error:
            refused = True
            complain(str(error))
        except KafkaError as error:
            left = names[number:]
            raise click.ClickException(
                f"{error}; no attempt was made to delete {', '.join(left)}" if left else str(error)
            ) from error
    if refused:
        raise click.exceptions.Exit(1)
