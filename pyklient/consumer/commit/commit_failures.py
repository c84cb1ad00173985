"""Explains to the user why positions were not committed."""

from collections.abc import Callable, Sequence

from pyklient.consumer.commit.offset_storages.offset_storage import Rejection
from pyklient.consumer.owned_partitions import NOBODY, Assignment
from pyklient.consumer.stream.stream_core import StreamCore
from pyklient.errors import BrokerError, KafkaError
from pyklient.topic_partition import TopicPartition

__all__ = ["why_not_ours", "why_rejected"]


def why_not_ours(
    partition: TopicPartition,
    assignment: Assignment,
    generation: int,
    streams: Sequence[StreamCore],
    partition_count: Callable[[str], int],
) -> str:
    """Return a text that says why the client does not own *partition* now, or why it has not owned the
    partition all the time since *generation*.

    *assignment* is the present one, and *streams* are all streams of the client. *partition_count* returns
    how many partitions a topic has, or 0 if that is not known.
    """
    topic = partition.topic
    if not any(
        topic in stream.topics if stream.topic_filter is None else stream.topic_filter.allows(topic)
        for stream in streams
    ):
        return "this connector has no stream of that topic"
    count = partition_count(partition.topic)
    if not count:
        return "there is no such topic"
    if partition.partition >= count:
        return f"there is no such partition: the topic has {count}, numbered from 0"
    current = assignment.identity.generation
    if assignment.partitions and assignment.identity == NOBODY:
        return "this connector does not read the partition, because it was not passed to assign()"
    if current < 0:
        return (
            "this connector is not in its group now: it has not joined yet, or it has left because it "
            "closes or because a loop asked for no message for max_poll_interval_ms"
        )
    owned = assignment.partitions.get(partition)
    if owned is None:
        return (
            f"the group did not assign the partition to this connector in generation {current}; the member "
            "that owns it now continues at the committed offset"
        )
    return (
        f"the partition was revoked after generation {generation} and assigned to this connector again in "
        f"generation {owned.since}; its messages are handed out again from the committed offset"
    )


def why_rejected(rejection: Rejection, assignment: Assignment) -> KafkaError:
    """Return the error to report for *rejection*, the reason why the offset storage did not store a position.
    The position was sent under *assignment*."""
    if rejection.outdated and assignment.identity == NOBODY:
        reason = rejection.error.name if isinstance(rejection.error, BrokerError) else rejection.error
        return KafkaError(
            f"the group coordinator has rejected the offset ({reason}): the group has members, and a "
            "connector that uses assign() is not one of them; stop these members, or use another group_id"
        )
    return rejection.error
