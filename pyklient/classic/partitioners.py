"""The partitioners of Kafka's classic producers: they choose the partition of a message by its key."""

import random
from typing import Any, Protocol

from pyklient.classic.java_hashes import java_hash, safe_abs
from pyklient.kernel import array_hash

__all__ = ["ByteArrayPartitioner", "DefaultPartitioner", "Partitioner"]


class Partitioner(Protocol):
    """An object that chooses the partition of a message by its key."""

    def partition(self, key: Any, partition_count: int, /) -> int:
        """Return a partition from 0 to *partition_count* - 1 for a message whose partition key is *key*."""
        ...


class DefaultPartitioner:
    """Chooses the partition of a key by its hash in Java, as ``kafka.producer.DefaultPartitioner`` does.

    A key of None goes to a random partition. A key of bytes is hashed by its contents, so that equal keys go
    to the same partition. This differs from Java, where two arrays with the same contents have different
    hashes.
    """

    def partition(self, key: Any, partition_count: int, /) -> int:
        """Return the partition of *key*. Raise TypeError if Java has no hash for an object like *key*."""
        if key is None:
            return random.randrange(partition_count)
        number = java_hash(key)
        if number is None:
            raise TypeError(
                f"DefaultPartitioner takes a key of type str, int, bool or bytes, not {type(key).__name__}; "
                "pass such a key, or a partitioner of your own"
            )
        return safe_abs(number) % partition_count


class ByteArrayPartitioner:
    """Chooses the partition of a key of bytes by the hash of its contents in Java, as
    ``kafka.producer.ByteArrayPartitioner`` does."""

    def partition(self, key: Any, partition_count: int, /) -> int:
        """Return the partition of *key*. Raise TypeError if *key* is not of bytes."""
        if not isinstance(key, bytes | bytearray | memoryview):
            raise TypeError(f"ByteArrayPartitioner takes a key of bytes, not of type {type(key).__name__}")
        return safe_abs(array_hash(key)) % partition_count
