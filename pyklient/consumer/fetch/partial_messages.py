"""The rules for fetching from brokers before Kafka 0.10.1, which may return a part of a message.

These brokers cut the data of a partition at the number of bytes in the request. If the data ends within the
first message, the next request asks for twice as many bytes. These brokers limit only the bytes of each
partition, so a request must not name more partitions than fit into a response. Later brokers return a whole
batch however large it is, and limit the whole response.
"""

from collections.abc import Mapping
from typing import Final, TypeVar

from pyklient.consumer.fetch.fetch_position import Cursor
from pyklient.errors import MessageTooLargeError
from pyklient.protocol.records.layout import LEAD, LEAD_SIZE, OVERHEAD
from pyklient.topic_partition import TopicPartition

__all__ = ["LIMITED", "as_many_as_fit", "ask_for_more"]

LIMITED: Final = 3
"""The first version of Fetch that limits the whole response, and that returns one batch however large it is.
"""

_SMALLEST: Final = 4096

_T = TypeVar("_T")


def as_many_as_fit(
    partitions: dict[TopicPartition, _T], allowed: Mapping[Cursor, int], most: int
) -> dict[Cursor, int]:
    """Choose as many cursors of *allowed* as fit into a response of *most* bytes. Return the number of bytes
    to request for each of them.

    At least one cursor is returned. If other cursors are left out, the partitions of the returned cursors go
    to the end of *partitions*, so that all partitions have their turn.
    """
    chosen: dict[Cursor, int] = {}
    left = most
    for cursor, limit in allowed.items():
        size = cursor.fetch_bytes or limit
        if chosen and size > left:
            break
        chosen[cursor] = size
        left -= size
    if len(chosen) < len(allowed):
        for cursor in chosen:
            partitions[cursor.partition] = partitions.pop(cursor.partition)
    return chosen


def ask_for_more(cursor: Cursor, asked: int, records: memoryview, most: int) -> None:
    """Double the number of bytes that the next fetch of *cursor* requests, because *records* have only a part
    of the first message.

    *asked* is the number of bytes that were asked for, and *most* is the largest number that may be asked
    for. Raises MessageTooLargeError if *asked* is *most* already.
    """
    if asked >= most:
        size = f"{OVERHEAD + LEAD.unpack_from(records)[1]}" if len(records) >= LEAD_SIZE else f"over {asked}"
        raise MessageTooLargeError(
            f"the message at offset {cursor.position} of {cursor.partition} has {size} bytes, which is more "
            f"than fetch_max_bytes={most} allows in a response; raise that option"
        )
    cursor.fetch_bytes = min(max(2 * asked, _SMALLEST), most)
