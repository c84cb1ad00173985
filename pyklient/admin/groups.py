"""Dialogues about groups: list, describe, offsets, delete. Generators, played by ``net.dialogue``."""

import logging
from collections.abc import Callable
from typing import Any, Final

from pyklient.admin.descriptions import GroupDescription, GroupListing, MemberDescription
from pyklient.error_codes import ErrorCode
from pyklient.errors import KafkaError, ProtocolError, broker_error
from pyklient.net.dialogue import Ask, Dialogue, Pause, Refresh, insist
from pyklient.net.lookups.find_coordinator import find_coordinator
from pyklient.protocol.messages import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
    OffsetFetchRequest,
)
from pyklient.protocol.schema import ApiMessage
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["delete_group", "describe_group", "group_offsets", "list_groups"]

_log = logging.getLogger("pyklient.admin")

_ONE_GROUP: Final = 7
"""OffsetFetch 8 asks for many groups in another shape; every broker since 0.10.2 knows 7 or less."""


def list_groups() -> Dialogue[list[GroupListing]]:
    """The groups of every broker: each knows those it coordinates."""
    metadata = yield Refresh(())
    found: dict[str, GroupListing] = {}
    for node in sorted(metadata.nodes):
        for group in (yield from _groups_of(node)):
            found[group.group_id] = GroupListing(group.group_id, group.protocol_type, group.group_state)
    return [found[group_id] for group_id in sorted(found)]


def _groups_of(node: int) -> Dialogue[Any]:
    while True:
        response = yield from insist(Ask(node, ListGroupsRequest()))
        if not response.error_code:
            return response.groups
        refused = broker_error(response.error_code, f"list the groups of broker {node}")
        if not refused.retriable:
            raise refused
        yield Pause(because=refused)


def describe_group(group_id: str) -> Dialogue[GroupDescription]:
    """State and members. Raises BrokerError GROUP_ID_NOT_FOUND for a group that is not there."""
    node, group = yield from _ask_coordinator(
        group_id,
        DescribeGroupsRequest(groups=[group_id]),
        f"describe group {group_id}",
        lambda response: response.groups[0],
    )
    if group.group_state == "Dead":
        raise broker_error(ErrorCode.GROUP_ID_NOT_FOUND, f"describe group {group_id}")
    return GroupDescription(
        group_id=group_id,
        state=group.group_state,
        protocol_type=group.protocol_type,
        protocol=group.protocol_data,
        coordinator=node,
        members=tuple(
            MemberDescription(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                _assignment(group_id, member) if group.protocol_type == "consumer" else (),
                _subscription(group_id, member) if group.protocol_type == "consumer" else (),
            )
            for member in group.members
        ),
    )


def group_offsets(group_id: str) -> Dialogue[dict[TopicPartition, OffsetAndMetadata]]:
    """Every offset the group has committed; empty for a group that has none, or is not there."""
    _, response = yield from _ask_coordinator(
        group_id,
        OffsetFetchRequest(group_id=group_id, topics=None),
        f"offsets of group {group_id}",
        lambda response: response,
        max_version=_ONE_GROUP,
    )
    offsets = {}
    for topic in response.topics:
        for part in topic.partitions:
            partition = TopicPartition(topic.name, part.partition_index)
            if part.error_code:
                raise broker_error(part.error_code, f"offset of group {group_id} in {partition}")
            if part.committed_offset >= 0:
                offsets[partition] = OffsetAndMetadata(
                    part.committed_offset, part.metadata or "", part.committed_leader_epoch
                )
    return dict(sorted(offsets.items()))


def delete_group(group_id: str) -> Dialogue[None]:
    """Delete the group with its offsets. A group with members is refused (NON_EMPTY_GROUP)."""
    yield from _ask_coordinator(
        group_id,
        DeleteGroupsRequest(groups_names=[group_id]),
        f"delete group {group_id}",
        lambda response: response.results[0],
        done_by_a_lost_request=ErrorCode.GROUP_ID_NOT_FOUND,
    )


def _ask_coordinator(
    group_id: str,
    request: ApiMessage,
    what: str,
    result_of: Callable[[Any], Any],
    *,
    max_version: int | None = None,
    done_by_a_lost_request: int | None = None,
) -> Dialogue[tuple[int, Any]]:
    """Ask the group's coordinator, wherever it moves, until it answers or refuses: (its id, the result)."""
    lost = False
    while True:
        node = yield from find_coordinator(group_id)
        try:
            response = yield Ask(node, request, max_version=max_version)
        except KafkaError as error:
            if not error.retriable:
                raise
            _log.info("%s: %s; trying again", what, error)
            lost = True
            yield Pause(because=error)
            continue
        result = result_of(response)
        if not result.error_code or (lost and result.error_code == done_by_a_lost_request):
            return node, result
        said = getattr(result, "error_message", None)
        refused = broker_error(result.error_code, f"{what} (broker: {said})" if said else what)
        if not refused.retriable:
            raise refused
        yield Pause(because=refused)


def _assignment(group_id: str, member: Any) -> tuple[TopicPartition, ...]:
    """What the group's leader gave the member. A blob that does not parse is the leader's fault, not ours."""
    if not member.member_assignment:
        return ()
    try:
        blob = ConsumerProtocolAssignment.decode_blob(bytes(member.member_assignment))
    except ProtocolError as error:
        _log.warning("group %s: assignment of %s does not parse: %s", group_id, member.member_id, error)
        return ()
    return tuple(
        sorted(
            TopicPartition(topic.topic, number)
            for topic in blob.assigned_partitions
            for number in topic.partitions
        )
    )


def _subscription(group_id: str, member: Any) -> tuple[str, ...]:
    """The topics that the member has named. A blob that does not parse is the member's fault, not ours."""
    if not member.member_metadata:
        return ()
    try:
        blob = ConsumerProtocolSubscription.decode_blob(bytes(member.member_metadata))
    except ProtocolError as error:
        _log.warning("group %s: subscription of %s does not parse: %s", group_id, member.member_id, error)
        return ()
    return tuple(sorted(blob.topics))
