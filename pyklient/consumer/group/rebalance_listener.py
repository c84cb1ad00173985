"""The hooks by which an application hears of rebalances."""

from typing import Protocol

__all__ = ["ConsumerRebalanceListener"]


class ConsumerRebalanceListener(Protocol):
    """The methods that a connector calls during a rebalance, on a thread of its own.

    Heartbeats go on while a method runs, so it may take longer than ``session_timeout_ms``. The group waits
    for ``before_releasing_partitions`` within ``rebalance_timeout_ms``, and removes a member that takes
    longer. An exception that a method raises is logged.
    """

    def before_releasing_partitions(self, owned: dict[str, set[int]]) -> None:
        """Note that nothing more is handed out of *owned*, by topic; its offsets may still be committed.
        *owned* is empty the first time."""

    def before_starting_fetchers(self, consumer_id: str, assignment: dict[str, dict[int, str]]) -> None:
        """Note that *assignment* is about to be read: topic → partition → stream, and streams are named
        ``<consumer id>-<index>``."""
