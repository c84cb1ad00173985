"""Appends copies of messages to batches, in Python. ``message_appending.pxi`` must behave exactly as this
module.

A copy results in the same record as a call of ``Appender.send`` with the fields of the message: the same
bytes, partition and memory accounting.
"""

from array import array
from collections.abc import Sequence

from pyklient.kernel.append.appender import Appender, Batch, has_plain_headers
from pyklient.kernel.append.arrow_columns import AT_ONCE
from pyklient.kernel.append.record_encoding import murmur2
from pyklient.kernel.decode.message import Message

__all__ = ["append_messages"]


def append_messages(
    appender: Appender, messages: list[Message], start: int, keep_partition: bool
) -> tuple[int, list[tuple[Batch, int, int]], Sequence[int]]:
    """Append copies of the messages from index *start* on, in order, to the batches under construction of
    their topic. A copy goes to the partition of its message if *keep_partition* is true. Otherwise the key
    decides, as in ``send``. If a message has no timestamp, its copy gets the present time.

    Stop at the first message that has another topic or partition than message *start*, does not fit into its
    batch, or has a key or value that is not bytes. Stop also after about ``AT_ONCE`` bytes.

    Return the number of appended copies, and a list of tuples (batch, first, stop), ordered by partition: the
    records *first* to *stop* - 1 of that batch were appended. Return also the partitions of the copies, or an
    empty sequence if the list has only one tuple. If no copy was appended, the caller must pass the next
    message to ``send``. If the producer has encoders or a partitioner, no copy is appended.
    """
    runs: dict[int, tuple[Batch, int, int]] = {}
    targets = array("i")
    known = appender._sendable.get(messages[start].topic) if 0 <= start < len(messages) else None
    if known is None or known.count <= 0 or not appender._plain:
        return 0, [], targets
    written = 0
    with appender._lock:
        now_ms = appender._clock_ns() // 1_000_000
        for message in messages[start:]:
            if written >= AT_ONCE or not _continues(messages[start], message):
                break
            key = message.key
            if keep_partition:
                number = message.partition
            else:
                number = known.sticky if key is None else murmur2(key) % known.count
            batch = known.batches[number] if 0 <= number < known.count else None
            if batch is None:
                break
            run = runs.get(number) or (batch, batch.count, batch.count)
            time_ms = now_ms if message.timestamp_ms < 0 else message.timestamp_ms
            headers, limit, size = message.headers, appender.memory_limit, batch.size
            # Nothing is appended if a signal handler has sent a record in between.
            only = run[0], run[2]
            try:
                if not appender._put(
                    known, number, message.value, key, time_ms, headers, None, limit, only=only
                ):
                    break
            except UnicodeEncodeError:
                break  # a header name that is not valid text: ``send`` raises the error
            runs[number] = (batch, run[1], run[2] + 1)
            targets.append(number)
            written += batch.size - size
    ordered = [runs[number] for number in sorted(runs)]
    return len(targets), ordered, targets if len(ordered) > 1 else array("i")


def _continues(first: Message, message: Message) -> bool:
    """Return True if *message* is of the same partition as *first*, its key and value are bytes or None, and
    its headers can be encoded without calling code of the user."""
    key, value = message.key, message.value
    return (
        message.topic is first.topic
        and message.partition == first.partition
        and (value.__class__ is bytes or value is None)
        and (key.__class__ is bytes or key is None)
        and has_plain_headers(message.headers)
    )
