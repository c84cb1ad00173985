"""An adapter that makes a ConsumerRebalanceListener of a ClassicRebalanceListener."""

from collections.abc import Collection, Sequence
from typing import TypeAlias, cast

from pyklient.consumer.group.rebalance_listener import ClassicRebalanceListener, ConsumerRebalanceListener
from pyklient.consumer.group.stream_choice import StreamChoice
from pyklient.consumer.owned_partitions import Ownership
from pyklient.topic_partition import TopicPartition

__all__ = ["ClassicListenerAdapter", "RebalanceListener", "check_listener", "is_classic", "listeners_of"]

RebalanceListener: TypeAlias = ConsumerRebalanceListener | ClassicRebalanceListener
"""A rebalance listener of either kind: an object whose methods a connector calls during a rebalance."""


def is_classic(listener: object) -> bool:
    """Return True if *listener* has both methods of a ClassicRebalanceListener."""
    return all(
        callable(getattr(listener, name, None))
        for name in ("before_releasing_partitions", "before_starting_fetchers")
    )


def check_listener(listener: RebalanceListener) -> RebalanceListener:
    """Return *listener*. Raises TypeError if it is neither a ConsumerRebalanceListener nor an object with
    both methods of a ClassicRebalanceListener."""
    if not (isinstance(listener, ConsumerRebalanceListener) or is_classic(listener)):
        raise TypeError(
            f"{listener!r} is not a rebalance listener: write a subclass of ConsumerRebalanceListener, or a "
            "class with the methods before_releasing_partitions and before_starting_fetchers"
        )
    return listener


def listeners_of(
    listener: RebalanceListener | None, ownership: Ownership, choice: StreamChoice
) -> Sequence[ConsumerRebalanceListener]:
    """Return the listeners that the connector calls for *listener*: the listener itself if it is a
    ConsumerRebalanceListener, and an adapter if it has the methods of a ClassicRebalanceListener. For an
    object that is both, return both."""
    found = [listener] if isinstance(listener, ConsumerRebalanceListener) else []
    if listener is not None and is_classic(listener):
        found.append(ClassicListenerAdapter(cast(ClassicRebalanceListener, listener), ownership, choice))
    return found


class ClassicListenerAdapter(ConsumerRebalanceListener):
    """An adapter that calls the two methods of *listener* in a rebalance. ``before_starting_fetchers`` gets
    the whole assignment from *ownership*, with the names of the streams from *choice*."""

    def __init__(
        self, listener: ClassicRebalanceListener, ownership: Ownership, choice: StreamChoice
    ) -> None:
        self._listener = listener
        self._ownership = ownership
        self._choice = choice

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        """Tell the listener which partitions this client reads now, and in which streams."""
        assignment = self._ownership.assignment
        assert assignment is not None
        member_id = assignment.identity.member_id
        names: dict[str, dict[int, str]] = {}
        for each in assignment.partitions:
            if self._choice.stream_of(each) is not None:
                thread_id = f"{member_id}-{self._choice.number_of(each)}"
                names.setdefault(each.topic, {})[each.partition] = thread_id
        self._listener.before_starting_fetchers(member_id, names)

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        """Tell the listener which partitions this client gives back."""
        owned: dict[str, set[int]] = {}
        for topic, partition in partitions:
            owned.setdefault(topic, set()).add(partition)
        self._listener.before_releasing_partitions(owned)
