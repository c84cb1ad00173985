"""CallbackHandler: hooks with which a program observes and changes the messages of an asynchronous
producer."""

from collections.abc import Mapping, Sequence
from typing import Any

from pyklient.classic.queue_item import QueueItem
from pyklient.kernel import KeyedMessage

__all__ = ["CallbackHandler", "HookResultError", "before_sending", "returned_items"]


class HookResultError(TypeError):
    """A hook returned something that is not a list of messages. The text names the hook."""


class CallbackHandler:
    """The base class of hooks, which an asynchronous producer calls. A program overrides the hooks that it
    needs. By default, a hook changes nothing.

    An item is a QueueItem if the producer follows the rules of Kafka 0.7 (the profile 0.7), and a
    KeyedMessage otherwise. For one item, the hooks are called in this order: ``before_enqueue``,
    ``after_enqueue``, ``after_dequeuing_existing_data``, ``before_sending_data``. While the producer closes,
    ``last_batch_before_close`` and ``close`` follow.

    An exception of ``init`` or ``before_enqueue`` is raised to the caller. Exceptions of the other hooks are
    logged, and the producer goes on. A synchronous producer has no queue and calls no hooks.
    """

    def init(self, properties: Mapping[str, str]) -> None:
        """Prepare for the first item. *properties* has the content of the property
        ``callback.handler.props``.

        The thread that creates the producer calls this, once.
        """
        return

    def before_enqueue(self, item: Any) -> Any:
        """Return the item to put into the queue: *item* or another one, and not None.

        The thread that calls ``send`` calls this for each item, before it looks for space in the queue.
        """
        return item

    def after_enqueue(self, item: Any, added: bool) -> None:
        """React to the attempt to put *item* into the queue. *added* is true if *item* is in the queue now,
        and false if the queue was full.

        The thread that calls ``send`` calls this hook. If the queue was full, ``send`` raises QueueFullError
        afterwards.
        """
        return

    def after_dequeuing_existing_data(self, item: Any | None) -> Sequence[Any]:
        """Return the items to append to the batch instead of *item*: none, one or several.

        The send thread calls this hook for each item that it removes from the queue. It also calls this hook
        with None when the queue is empty and the queue time (``queue.buffering.max.ms``) has passed since the
        previous batch.
        """
        return [] if item is None else [item]

    def before_sending_data(self, items: Sequence[Any]) -> Sequence[Any]:
        """Return the items to send instead of the batch *items*.

        The default event handler calls this hook, on the send thread. If the program passes its own event
        handler, nothing calls this hook.
        """
        return items

    def last_batch_before_close(self) -> Sequence[Any]:
        """Return items to append to the last batch. The send thread calls this once, when the producer is
        closed and the queue is empty."""
        return []

    def close(self) -> None:
        """Release the resources of the hooks, such as files. Called once, after all other hooks except
        ``on_dropped``."""
        return

    def on_dropped(self, items: Sequence[Any], error: BaseException) -> None:
        """React to the loss of *items*, which the producer has dropped because of *error*. No method of the
        producer raises this error.

        The producer also logs the error. Only pyklient has this hook: Kafka's Scala producers only log
        the error. If ``send`` has raised an error for an item, the hook is not called for this item.
        """
        return


def before_sending(
    hooks: CallbackHandler, batch: Sequence[Any], item_class: type[KeyedMessage | QueueItem]
) -> Sequence[Any]:
    """Return the items that the hook ``before_sending_data`` of *hooks* returns for *batch*. Raise
    HookResultError if they are not of the *item_class*.

    If the hook raises an exception, a note on the exception names the hook.
    """
    try:
        return returned_items(
            hooks.before_sending_data(batch), item_class, f"{type(hooks).__name__}.before_sending_data"
        )
    except HookResultError:
        raise
    except BaseException as error:
        error.add_note(f"{type(hooks).__name__}.before_sending_data failed")
        raise


def returned_items(returned: object, item_class: type[KeyedMessage | QueueItem], hook: str) -> Sequence[Any]:
    """Return *returned*, the result of *hook*. Raise HookResultError if it is not a list of items of the
    *item_class*."""
    wanted = f"a list of {item_class.__name__}s"
    if not isinstance(returned, list | tuple):
        raise HookResultError(f"{hook} returned {returned!r}, but it must return {wanted}")
    for item in returned:
        if not isinstance(item, item_class):
            raise HookResultError(f"{hook} returned a list with {item!r}, but it must return {wanted}")
    return returned
