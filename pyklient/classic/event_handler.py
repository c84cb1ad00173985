"""EventHandler: the base class of objects that send the batches of a classic producer."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["EventHandler"]


class EventHandler(ABC):
    """Sends the messages of a classic producer. A program may pass its own event handler to the producer.

    An event handler may be called from several threads if the producer is synchronous, and from the
    producer's send thread otherwise.
    """

    def init(self, properties: Mapping[str, str]) -> None:
        """Prepare for the first batch. *properties* has the content of the property ``event.handler.props``,
        which only Kafka 0.7 has. Does nothing by default."""
        return

    @abstractmethod
    def handle(self, messages: Sequence[Any]) -> None:
        """Send *messages*, which are KeyedMessages, or QueueItems if the producer follows the rules of Kafka
        0.7 (the profile 0.7).

        A synchronous producer raises the error of this method in ``send``. The send thread of an asynchronous
        producer logs the error, and goes on with the next batch.
        """

    def interrupt(self) -> None:
        """Make a running call of ``handle`` fail soon. Called by another thread when the time-out of the
        producer's ``close`` is over. Does nothing by default."""
        return

    def close(self) -> None:
        """Release the resources of the handler, such as connections. Called once, after the last batch. Does
        nothing by default."""
        return
