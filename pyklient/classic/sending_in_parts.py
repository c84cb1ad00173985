"""Sends the messages of some partitions to a broker, in requests that are small enough for the broker."""

import logging
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from pyklient.classic.batch_limits import BatchLimits
from pyklient.classic.encoded_messages import EncodedMessages
from pyklient.classic.queue_item import ANY_PARTITION
from pyklient.error_codes import ErrorCode
from pyklient.errors import KafkaError
from pyklient.topic_partition import TopicPartition

__all__ = ["Groups", "UnsentGroup", "as_kafka_error", "send_in_parts"]

log = logging.getLogger("pyklient.producer")

_TOO_LARGE: Final = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)

Groups: TypeAlias = dict[TopicPartition, EncodedMessages]
"""The messages for each partition."""


class UnsentGroup(NamedTuple):
    """Messages for one partition, which no broker has confirmed, and the error that tells why."""

    messages: EncodedMessages
    error: KafkaError


def send_in_parts(
    groups: Groups, limits: BatchLimits, send: Callable[[Groups], Mapping[TopicPartition, KafkaError]]
) -> dict[TopicPartition, UnsentGroup]:
    """Call *send* with the messages of *groups*, and return the messages that were not confirmed. *send*
    sends one request, and returns the errors of the partitions that have failed.

    If the messages of a partition have too many bytes for one request, several requests are sent. If one of
    them fails, the later messages of the partition are not sent and count as failed too. This keeps the
    messages in order.
    """
    unsent: dict[TopicPartition, UnsentGroup] = {}
    begins = dict.fromkeys(groups, 0)
    while begins:
        ends: dict[TopicPartition, int] = {}
        parts: Groups = {}
        is_last = True
        for where, begin in begins.items():
            group = groups[where]
            ends[where] = end = begin + limits.count(where.topic, group, begin)
            parts[where] = group.part(begin, end)
            is_last = is_last and end == len(group)
        problems = send(parts)
        if is_last and not problems:
            break
        following: dict[TopicPartition, int] = {}
        for where, part in parts.items():
            problem = problems.get(where)
            if problem is None:
                if ends[where] < len(groups[where]):
                    following[where] = ends[where]
            elif len(part) > 1 and getattr(problem, "code", None) in _TOO_LARGE:
                limits.halve(where.topic, part)
                following[where] = begins[where]
            else:
                shown = f"{where.topic} (any partition)" if where.partition == ANY_PARTITION else where
                log.warning("messages for %s were not stored: %s", shown, problem)
                unsent[where] = UnsentGroup(groups[where].part(begins[where]), problem)
        begins = following
    return unsent


def as_kafka_error(error: Exception) -> KafkaError:
    """Return *error* if it is a KafkaError. Otherwise return a KafkaError with the type and the text of
    *error*."""
    return error if isinstance(error, KafkaError) else KafkaError(f"{type(error).__name__}: {error}")
