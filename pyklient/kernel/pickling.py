"""Restores messages and deliveries from pickles with the kernel in use, even if the other kernel wrote them.

A pickle names ``restore_message`` or ``restore_delivery``. ``kernel_choice`` calls ``restore_with``, so that
both functions make objects of the kernel in use.
"""

from collections.abc import Callable
from typing import Any, Final

__all__ = ["restore_delivery", "restore_message", "restore_with"]

_restorers: Final[dict[str, Callable[..., Any]]] = {}


def restore_with(*, message: Callable[..., Any], delivery: Callable[..., Any]) -> None:
    """Set the functions that make messages and deliveries from their pickled fields: *message* and
    *delivery*."""
    _restorers.update(message=message, delivery=delivery)


def restore_message(*fields: Any) -> Any:
    """Return the message that was pickled with these *fields*."""
    return _restorers["message"](*fields)


def restore_delivery(*fields: Any) -> Any:
    """Return the delivery that was pickled with these *fields*. Only deliveries whose result is known can be
    pickled."""
    return _restorers["delivery"](*fields)
