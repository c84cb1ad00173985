"""CorruptRecords, which tells a program which records are skipped because they cannot be read."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from pyklient.errors import KafkaError

__all__ = ["CorruptHandler", "CorruptRecords"]


@dataclass(frozen=True, slots=True)
class CorruptRecords:
    """Offsets of a partition that a consumer is about to skip, because their batch cannot be read.

    The offsets begin at *first_offset* and end before *next_offset*, where reading continues. *error* says
    why the batch cannot be read: it is a CorruptRecordError, or a MessageTooLargeError if the batch
    decompresses to more than ``max_decompressed_bytes``.
    """

    topic: str
    partition: int
    first_offset: int
    next_offset: int
    error: KafkaError


CorruptHandler: TypeAlias = Callable[[CorruptRecords], object]
"""A function that is called before records are skipped. If it raises an exception, they are not skipped."""
