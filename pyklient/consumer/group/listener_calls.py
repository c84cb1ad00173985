"""Calls the methods of a connector's rebalance listeners, and records which partitions are assigned from the
listeners' point of view."""

import logging
from collections.abc import Callable, Collection, Sequence

from pyklient.consumer.group.classic_listener import ClassicListenerAdapter
from pyklient.consumer.group.rebalance_listener import ConsumerRebalanceListener
from pyklient.topic_partition import TopicPartition

__all__ = ["ListenerCalls"]

log = logging.getLogger("pyklient.consumer")


class ListenerCalls:
    """Tells *listeners* which partitions are assigned, revoked and lost.

    Listeners get the partitions in sorted order. An exception that a listener raises is logged. Only one
    thread at a time may call these methods, so that a listener gets the calls in the order of the events.
    """

    def __init__(self, listeners: Sequence[ConsumerRebalanceListener]) -> None:
        self._listeners = listeners
        self._assigned: set[TopicPartition] = set()
        """The partitions that are assigned from the listeners' point of view: the listeners were told that
        they are assigned, and were not told since then that they are revoked or lost."""
        self._before_first = True
        """True until the listeners have been told of the first assignment."""

    def assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Tell the listeners that *partitions* are assigned to this client."""
        self._before_first = False
        self._assigned.update(partitions)
        self._call(lambda listener: listener.on_partitions_assigned(sorted(partitions)))

    def revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Tell the listeners that *partitions* are given back, and that their offsets can still be
        committed.

        Before the first assignment, tell only listeners with the methods of Scala's listener. Scala's
        consumer calls its listener at that time too, but Java's consumer does not.
        """
        self._assigned.difference_update(partitions)
        self._call(
            lambda listener: listener.on_partitions_revoked(sorted(partitions)),
            only_classic=self._before_first,
        )

    def lost(self, partitions: Collection[TopicPartition]) -> None:
        """Tell the listeners that *partitions* are lost: other members may own them already."""
        self._assigned.difference_update(partitions)
        self._call(lambda listener: listener.on_partitions_lost(sorted(partitions)))

    def all_lost(self) -> None:
        """Tell the listeners that all partitions that were assigned are lost. If none was assigned, do
        nothing."""
        if self._assigned:
            self.lost(frozenset(self._assigned))

    def _call(self, call: Callable[[ConsumerRebalanceListener], None], *, only_classic: bool = False) -> None:
        for listener in self._listeners:
            if only_classic and not isinstance(listener, ClassicListenerAdapter):
                continue
            try:
                call(listener)
            except BaseException:  # sys.exit() in a listener must not end the thread that rebalances
                log.exception("the rebalance listener raised an exception; the rebalance goes on")
