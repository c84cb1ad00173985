"""QueueItem: a message of a 0.7 producer, for which a broker and a partition have been chosen."""

from typing import Any

__all__ = ["ANY_PARTITION", "NO_BROKER", "QueueItem"]

ANY_PARTITION = -1
"""The partition of an item that may go to any partition that its broker leads. With ``broker.list``, the
producer uses this number, because it does not know the partitions."""

NO_BROKER = -1
"""The ``broker_id`` of an item for which no broker has been chosen yet, because a hook has made the item."""


class QueueItem:
    """A message of a 0.7 producer: its data before encoding, its topic and its partition.

    ``broker_id`` is the id of the broker to which the message is sent. The hooks of a CallbackHandler get and
    return such items.
    """

    __slots__ = ("broker_id", "data", "partition", "topic")

    def __init__(
        self, data: Any, topic: str, partition: int = ANY_PARTITION, *, broker_id: int = NO_BROKER
    ) -> None:
        if not isinstance(topic, str) or not isinstance(partition, int):
            raise TypeError(
                f"the topic of a QueueItem must be a str and its partition an int, not {topic!r} and "
                f"{partition!r}"
            )
        self.data = data
        self.topic = topic
        self.partition = partition
        self.broker_id = broker_id

    def __repr__(self) -> str:
        return f"QueueItem({self.data!r}, {self.topic!r}, {self.partition})"
