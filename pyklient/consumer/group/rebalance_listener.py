"""The methods by which a connector tells an application about rebalances."""

from typing import Protocol

__all__ = ["ConsumerRebalanceListener"]


class ConsumerRebalanceListener(Protocol):
    """The methods that a connector calls during a rebalance, on a separate thread.

    Heartbeats continue while a method runs, so it may take longer than ``session_timeout_ms``. The group
    waits ``rebalance_timeout_ms`` for ``before_releasing_partitions``, and removes a member that takes
    longer. An exception that a method raises is logged.
    """

    def before_releasing_partitions(self, owned: dict[str, set[int]]) -> None:
        """Prepare to lose the partitions in *owned* (topic → partitions), whose offsets can still be
        committed.

        This is called when no more messages of these partitions will be handed out. *owned* is empty in the
        first call.
        """

    def before_starting_fetchers(self, consumer_id: str, assignment: dict[str, dict[int, str]]) -> None:
        """Prepare to read the partitions in *assignment* (topic → partition → name of the stream).

        This is called before any of them is read. The name of a stream is ``<consumer id>-<index>``.
        """
