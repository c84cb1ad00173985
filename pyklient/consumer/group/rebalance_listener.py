"""The interfaces of rebalance listeners, through which a connector tells a program about rebalances."""

from collections.abc import Collection
from typing import Protocol

from pyklient.topic_partition import TopicPartition

__all__ = ["ClassicRebalanceListener", "ConsumerRebalanceListener"]


class ConsumerRebalanceListener:
    """The methods that a connector calls during a rebalance, on a separate thread. Write a subclass with the
    methods that you need.

    Heartbeats continue while a method runs, so it may take longer than ``session_timeout_ms``. The group
    waits for ``on_partitions_revoked`` for up to ``rebalance_timeout_ms``, and removes a member that takes
    longer. An exception that a method raises is logged. A method may commit offsets, and may close the
    connector.
    """

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Prepare to read *partitions*, which this client has got in addition to the partitions that it
        keeps.

        This is called at the end of each rebalance. No message of *partitions* is fetched before this method
        has returned, so it may seek and pause: ``connector.stream_of(partition).seek(partition, offset)``.
        *partitions* may be empty.
        """

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Prepare to give *partitions* back. Their offsets can still be committed.

        This is called after the automatic commit, when no more messages of *partitions* will be handed out.
        It is not called before the first assignment. *partitions* is empty if the last assignment was empty.
        """

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        """Clean up for *partitions*, which this client has lost. Other members may read them already, so
        their offsets cannot be committed any more.

        This is called instead of :meth:`on_partitions_revoked` if the group has removed this member. By
        default, this method calls :meth:`on_partitions_revoked`.
        """
        self.on_partitions_revoked(partitions)


class ClassicRebalanceListener(Protocol):
    """The two methods of a rebalance listener of Scala's high-level consumer.

    A connector calls these methods in a rebalance, as it calls the methods of a ConsumerRebalanceListener.
    """

    def before_releasing_partitions(self, owned: dict[str, set[int]]) -> None:
        """Prepare to lose the partitions in *owned* (topic → partitions). Their offsets can still be
        committed, unless the group has removed this member.

        This is called when no more messages of these partitions will be handed out. *owned* is empty in the
        first call.
        """

    def before_starting_fetchers(self, consumer_id: str, assignment: dict[str, dict[int, str]]) -> None:
        """Prepare to read the partitions in *assignment* (topic → partition → name of the stream).

        This is called before any of them is read. The name of a stream is ``<consumer id>-<index>``.
        """
