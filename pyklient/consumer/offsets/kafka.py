"""Committed offsets: storing them with the group's coordinator, and asking for them."""

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from pyklient.consumer.group.classic.dialogues import Member, ask_coordinator
from pyklient.consumer.group.membership import Assignment
from pyklient.error_codes import ErrorCode
from pyklient.errors import UnsupportedVersionError, broker_error
from pyklient.net.dialogue import Dialogue, retried
from pyklient.net.pool import Purpose
from pyklient.protocol.messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
)
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["COMMIT_VERSION", "commit_request", "commit_offsets", "fetch_offsets", "refused"]

COMMIT_VERSION = 9
"""The newest OffsetCommit that names topics; later ones have ids only."""

_FETCH_VERSION = 7  # the newest OffsetFetch for one group
_MOVED = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
_PASSING = (*_MOVED, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REQUEST_TIMED_OUT)


def commit_request(
    member: Member, assignment: Assignment, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> OffsetCommitRequest:
    """*offsets* as a request under the name that *assignment* was made out to."""
    topics: dict[str, list[OffsetCommitRequest.OffsetCommitRequestTopic.OffsetCommitRequestPartition]] = {}
    for (topic, partition), position in offsets.items():
        topics.setdefault(topic, []).append(
            OffsetCommitRequest.OffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=position.offset,
                committed_leader_epoch=position.leader_epoch,
                committed_metadata=position.metadata,
            )
        )
    return OffsetCommitRequest(
        group_id=member.group_id,
        generation_id_or_member_epoch=assignment.generation,
        member_id=assignment.member_id,
        group_instance_id=member.instance_id,
        topics=[
            OffsetCommitRequest.OffsetCommitRequestTopic(name=topic, partitions=partitions)
            for topic, partitions in topics.items()
        ],
    )


def refused(response: OffsetCommitResponse) -> dict[TopicPartition, int]:
    """The error codes in *response*, of the partitions that have one."""
    return {
        TopicPartition(topic.name, partition.partition_index): partition.error_code
        for topic in response.topics
        for partition in topic.partitions
        if partition.error_code
    }


def commit_offsets(
    member: Member, assignment: Assignment, offsets: Mapping[TopicPartition, OffsetAndMetadata]
) -> Dialogue[dict[TopicPartition, int]]:
    """Store *offsets*. → the error codes of those that were refused for good."""
    failed: dict[TopicPartition, int] = {}
    left = dict(offsets)
    if left:
        yield from retried(partial(_commit_left, member, assignment, left, failed))
    return failed


def _commit_left(
    member: Member,
    assignment: Assignment,
    left: dict[TopicPartition, OffsetAndMetadata],
    failed: dict[TopicPartition, int],
) -> Dialogue[None]:
    """Commit the offsets in *left*, and remove those that need no other try.

    Adds the error codes of those that were refused to *failed*. Raises an error if any are left.
    """
    request = commit_request(member, assignment, left)
    response = yield from ask_coordinator(member, request, purpose=Purpose.OTHER, max_version=COMMIT_VERSION)
    codes = refused(response)
    failed.update((each, code) for each, code in codes.items() if code not in _PASSING)
    for each in set(left) - (codes.keys() - failed.keys()):
        del left[each]
    if not set(_MOVED).isdisjoint(codes.values()):
        member.coordinator = None
    if left:
        again = next(code for each, code in codes.items() if each in left)
        raise broker_error(again, f"group {member.group_id}, committing offsets")


def fetch_offsets(
    member: Member, partitions: Collection[TopicPartition], *, stable: bool
) -> Dialogue[dict[TopicPartition, OffsetAndMetadata | None]]:
    """The committed offsets of *partitions*, None where there is none.

    *stable* waits for transactions that are about to commit offsets of theirs (KIP-447).
    """
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    request = OffsetFetchRequest(
        group_id=member.group_id,
        require_stable=stable,
        topics=[
            OffsetFetchRequest.OffsetFetchRequestTopic(name=topic, partition_indexes=numbers)
            for topic, numbers in topics.items()
        ],
    )
    if not topics:
        return {}
    found = yield from retried(partial(_fetch, member, request))
    return {each: found.get(each) for each in partitions}


def _fetch(
    member: Member, request: OffsetFetchRequest
) -> Dialogue[dict[TopicPartition, OffsetAndMetadata | None]]:
    """Ask the coordinator once for committed offsets. Raises the error in its response."""
    try:
        response = yield from ask_coordinator(member, request, max_version=_FETCH_VERSION)
    except UnsupportedVersionError:
        if not request.require_stable:
            raise
        request.require_stable = False  # old brokers cannot wait for transactions
        response = yield from ask_coordinator(member, request, max_version=_FETCH_VERSION)
    found, code = _read(response)
    if code in _MOVED:
        member.coordinator = None
    if code:
        raise broker_error(code, f"group {member.group_id}, fetching its offsets")
    return found


def _read(response: Any) -> tuple[dict[TopicPartition, OffsetAndMetadata | None], int]:
    """What *response* holds, and the first error code in it."""
    found: dict[TopicPartition, OffsetAndMetadata | None] = {}
    code = response.error_code
    for topic in response.topics:
        for each in topic.partitions:
            if each.error_code == 0 and each.committed_offset >= 0:
                found[TopicPartition(topic.name, each.partition_index)] = OffsetAndMetadata(
                    each.committed_offset, each.metadata or "", each.committed_leader_epoch
                )
            elif each.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                code = code or each.error_code
    return found, code
