"""Sorts the messages of a batch of the classic producer by partition, in Python. ``partition_sorting.pxi``
must behave exactly as this module."""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from pyklient.kernel.classic.java_hashes import array_hash, string_hash

__all__ = ["by_partition"]

_Group: TypeAlias = tuple[str, int, list[Any], list[bytes | None], list[bytes | None] | None]
_OpenGroup: TypeAlias = tuple[str, int, list[Any], list[bytes | None], list[bytes | None]]

_INT_MIN: Final = -(2**31)


class _SortedTopic:
    """The messages of one topic."""

    def __init__(self) -> None:
        self.partitions: Sequence[int] | None = None
        """All partitions of the topic. None until a message needs them."""
        self.keyless: int | None = None
        """The partition of messages without a key. None until such a message is found."""
        self.groups: dict[int, _OpenGroup] = {}


def by_partition(
    given: list[Any],
    values: list[bytes | None],
    keys: list[bytes | None] | None,
    hashed: tuple[type, ...],
    partitions: Callable[[str], Sequence[int]],
    without_key: Callable[[str], int],
    with_key: Callable[[str, Any], int],
) -> list[_Group]:
    """Return the messages *given* by partition, as tuples (topic, partition, messages, values, keys).

    *values* and *keys* are the bytes of the messages and of their keys, in the same order. *keys* is None if
    no message has a key; then the keys in the tuples are None too. The tuples are in the order of their first
    messages.

    *hashed* has the classes of partition keys (bytes or str) whose hash in Java decides the partition, among
    ``partitions(topic)``. For every other partition key, ``with_key(topic, key)`` is the partition. All
    messages of a topic without a partition key go to ``without_key(topic)``.
    """
    if len(values) != len(given) or (keys is not None and len(keys) != len(given)):
        raise ValueError("there must be as many values and keys as messages")
    topics: dict[str, _SortedTopic] = {}
    groups: list[_OpenGroup] = []
    for index, message in enumerate(given):
        name, chosen_by = message.topic, message.partition_key
        if (topic := topics.get(name)) is None:
            topic = topics[name] = _SortedTopic()
        if chosen_by is None:
            if topic.keyless is None:
                topic.keyless = without_key(name)
            partition = topic.keyless
        elif chosen_by.__class__ in hashed:
            if topic.partitions is None:
                topic.partitions = partitions(name)
            hash_of: Callable[[Any], int] = array_hash if chosen_by.__class__ is bytes else string_hash
            number = hash_of(chosen_by)
            # As in Java, the smallest number has no absolute value.
            number = 0 if number == _INT_MIN else abs(number)
            partition = topic.partitions[number % len(topic.partitions)]
        else:
            partition = with_key(name, chosen_by)
        if (group := topic.groups.get(partition)) is None:
            group = topic.groups[partition] = (name, partition, [], [], [])
            groups.append(group)
        group[2].append(message)
        group[3].append(values[index])
        if keys is not None:
            group[4].append(keys[index])
    return [(*group[:4], None if all(key is None for key in group[4]) else group[4]) for group in groups]
