"""The orders in which Java sorts texts, and in which its hash tables return texts and partitions.

Java's sticky assignors iterate over hash tables, so these orders decide which of several equally good
assignments a group gets. The leader of a group may be a Java program or one of pyklient, and both should make
the same assignment.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from pyklient.kernel import string_hash
from pyklient.topic_partition import TopicPartition

__all__ = ["PartitionSet", "computed_order", "hash_order", "utf16"]

_SMALLEST_TABLE: Final = 16
_MASK: Final = 0xFFFFFFFF


def utf16(text: str) -> bytes:
    """Return a key for sorting texts as Java does: by the units of UTF-16."""
    return text.encode("utf-16-be", "surrogatepass")


def hash_order(texts: Iterable[str]) -> list[str]:
    """Return *texts* in the order in which a HashMap of Java returns them, after they were added in the given
    order.

    Java changes the order of texts if eight or more of them are in the same slot of the table. This function
    does not, because eight names hardly ever get the same slot by chance.
    """
    added = list(dict.fromkeys(texts))
    last = _table_size(len(added), _SMALLEST_TABLE) - 1
    return sorted(added, key=lambda text: _spread(string_hash(text)) & last)


def computed_order(texts: Sequence[str]) -> list[str]:
    """Return the distinct *texts* in the order in which a HashMap of Java returns them, if
    ``computeIfAbsent`` has added them in the given order.

    This method of Java puts a new text before the other texts in the same slot, and enlarges the table before
    it adds the text.
    """
    last = _table_size(len(set(texts[:-1])), _SMALLEST_TABLE) - 1
    added = list(dict.fromkeys(texts))
    added.reverse()
    return sorted(added, key=lambda text: _spread(string_hash(text)) & last)


class PartitionSet:
    """Partitions of one topic, in the order of a HashSet of Java."""

    def __init__(self) -> None:
        self._table = _SMALLEST_TABLE
        self._spread: dict[TopicPartition, int] = {}

    def __bool__(self) -> bool:
        return bool(self._spread)

    def add(self, partition: TopicPartition) -> None:
        """Add *partition*."""
        self._spread[partition] = _spread(31 * (31 + partition.partition) + string_hash(partition.topic))
        self._table = _table_size(len(self._spread), self._table)

    def remove(self, partition: TopicPartition) -> None:
        """Remove *partition*. The table stays as large as it is, as in Java."""
        del self._spread[partition]

    def first(self) -> TopicPartition:
        """Return the partition that Java's iterator would return first."""
        return min(self._spread, key=lambda each: self._spread[each] & (self._table - 1))


def _table_size(entries: int, at_least: int) -> int:
    size = at_least
    while entries > size * 3 // 4:
        size *= 2
    return size


def _spread(hashed: int) -> int:
    hashed &= _MASK
    return hashed ^ hashed >> 16
