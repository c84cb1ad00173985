"""CallbackHandler: the hooks by which a program follows and changes what an asynchronous producer sends."""

from collections.abc import Mapping, Sequence
from typing import Any

from pyklient.classic.keyed_message import KeyedMessage
from pyklient.classic.queue_item import QueueItem

__all__ = ["CallbackHandler", "before_sending", "returned_items"]


class CallbackHandler:
    """The base class of hooks, which an asynchronous producer calls. A program overrides the hooks that it
    needs. By default, a hook changes nothing.

    An item is a QueueItem in the profile 0.7, and a KeyedMessage otherwise. For one item, the hooks are
    called in this order: ``before_enqueue``, ``after_enqueue``, ``after_dequeuing_existing_data``,
    ``before_sending_data``. While the producer closes, ``last_batch_before_close`` and ``close`` follow.

    An exception of ``init`` or ``before_enqueue`` is raised to the caller. Exceptions of the other hooks are
    logged, and the producer goes on. A synchronous producer has no queue and calls no hooks.
    """

    def init(self, properties: Mapping[str, str]) -> None:
        """Prepare for the first item. *properties* are those of ``callback.handler.props``.

        The thread that creates the producer calls this, once.
        """
        return

    def before_enqueue(self, item: Any) -> Any:
        """Return the item to put into the queue: *item* or another one, and not None.

        The thread that calls ``send`` calls this for each item, before it looks for space in the queue.
        """
        return item

    def after_enqueue(self, item: Any, added: bool) -> None:
        """Note that *item* was put into the queue, or that the queue was full and *item* was not *added*.

        The thread that calls ``send`` calls this hook. If the queue was full, ``send`` raises QueueFullError
        afterwards.
        """
        return

    def after_dequeuing_existing_data(self, item: Any | None) -> Sequence[Any]:
        """Return the items to append to the batch instead of *item*: none, one or several.

        The send thread calls this for each item that it takes from the queue, and with None whenever the
        queue has been empty until the time for a batch has passed.
        """
        return [] if item is None else [item]

    def before_sending_data(self, items: Sequence[Any]) -> Sequence[Any]:
        """Return the items to send instead of the batch *items*.

        The default event handler calls this, on the send thread. An event handler of your own does not.
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
        """Note that the producer has dropped *items* because of *error*. No call raises this error.

        Kafka's producers do not have this hook, and only log the error, which this producer does too. The
        hook is not called for items for which ``send`` has raised an error.
        """
        return


def before_sending(hooks: CallbackHandler, batch: Sequence[Any]) -> Sequence[Any]:
    """Return the items that *hooks* want to send instead of *batch*. If the hook raises an exception, a note
    on the exception names the hook."""
    try:
        return returned_items(hooks.before_sending_data(batch))
    except BaseException as error:
        error.add_note(f"{type(hooks).__name__}.before_sending_data failed")
        raise


def returned_items(returned: object) -> Sequence[Any]:
    """Return what a hook has *returned*. Raise TypeError if this is not a list of items."""
    if not isinstance(returned, list | tuple):
        raise TypeError(f"the hook returned {returned!r}, which is not a list of items")
    for item in returned:
        if not isinstance(item, KeyedMessage | QueueItem):
            raise TypeError(f"the hook returned a list with {item!r}, which is no KeyedMessage or QueueItem")
    return returned
