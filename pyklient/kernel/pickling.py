"""Restores pickled messages and deliveries with the kernel in use, whichever kernel wrote the pickle.

A pickle names the functions here. ``kernel_choice`` tells these functions how the kernel in use makes its
objects.
"""

from collections.abc import Callable
from typing import Any, Final

__all__ = ["restore_delivery", "restore_message", "restore_with"]

_restorers: Final[dict[str, Callable[..., Any]]] = {}


def restore_with(*, message: Callable[..., Any], delivery: Callable[..., Any]) -> None:
    """Set the functions that restore messages and deliveries from their pickled fields."""
    _restorers.update(message=message, delivery=delivery)


def restore_message(*fields: Any) -> Any:
    """Return the message with these *fields*."""
    return _restorers["message"](*fields)


def restore_delivery(*fields: Any) -> Any:
    """Return the delivery with these *fields*, whose outcome is known."""
    return _restorers["delivery"](*fields)
