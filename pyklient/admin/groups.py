"""Dialogues about groups: they list and describe groups, fetch their offsets, and delete groups."""

import logging
from typing import Any

from pyklient.admin.descriptions import GroupDescription, GroupListing, MemberDescription
from pyklient.admin.requests import AdminRequest, ask, coordinator, node, only
from pyklient.error_codes import ErrorCode
from pyklient.errors import ProtocolError, UnsupportedVersionError, broker_error
from pyklient.net.dialogue import Dialogue, Refresh
from pyklient.net.lookups.group_description import (
    describe_group_request,
    described_group,
    subscribed_topics,
)
from pyklient.net.lookups.offset_fetch import ONE_GROUP, fetched_offsets, offset_fetch_request
from pyklient.net.metadata import Metadata
from pyklient.protocol.messages import (
    ConsumerProtocolAssignment,
    DeleteGroupsRequest,
    ListGroupsRequest,
)
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["delete_group", "describe_group", "group_offsets", "list_groups"]

_log = logging.getLogger("pyklient.admin")


def list_groups() -> Dialogue[list[GroupListing]]:
    """Ask each broker for the groups that it coordinates. Return the groups of all brokers."""
    metadata = yield Refresh(())
    found: dict[str, GroupListing] = {}
    for node_id in sorted(metadata.nodes):
        what = f"cannot list the groups of broker {node_id}"
        order = AdminRequest(what, ListGroupsRequest(), lambda response: response)
        _, listed = yield from ask(order, node(node_id))
        for group in listed.groups:
            found[group.group_id] = GroupListing(group.group_id, group.protocol_type, group.group_state)
    return [found[group_id] for group_id in sorted(found)]


def describe_group(group_id: str) -> Dialogue[GroupDescription]:
    """Return the state and the members of a group.

    Raises BrokerError GROUP_ID_NOT_FOUND if there is no such group.
    """
    order = AdminRequest(
        f"cannot describe group {group_id}",
        describe_group_request(group_id),
        described_group,
    )
    node_id, group = yield from ask(order, coordinator(group_id))
    if group.group_state == "Dead":
        raise broker_error(ErrorCode.GROUP_ID_NOT_FOUND, f"cannot describe group {group_id}")
    return GroupDescription(
        group_id=group_id,
        state=group.group_state,
        protocol_type=group.protocol_type,
        protocol=group.protocol_data,
        coordinator=node_id,
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
    """Return the offsets that a group has committed. The result is empty if there is no such group."""
    try:
        response = yield from _fetch_offsets(group_id, None)
    except UnsupportedVersionError as error:
        if error.retriable:
            raise
        # Brokers before 0.10.2 return the offsets of the partitions that a request names.
        metadata: Metadata = yield Refresh(None)
        partitions = [
            TopicPartition(name, number)
            for name, topic in metadata.topics.items()
            for number in topic.partitions
        ]
        response = yield from _fetch_offsets(group_id, partitions)
    found = fetched_offsets(response)
    for partition, code in found.errors.items():
        raise broker_error(code, f"cannot fetch the offset of group {group_id} in {partition}")
    return dict(sorted(found.offsets.items()))


def _fetch_offsets(group_id: str, partitions: list[TopicPartition] | None) -> Dialogue[Any]:
    order = AdminRequest(
        f"cannot fetch the offsets of group {group_id}",
        offset_fetch_request(group_id, partitions),
        lambda response: response,
        max_version=ONE_GROUP,
    )
    _, response = yield from ask(order, coordinator(group_id))
    return response


def delete_group(group_id: str) -> Dialogue[None]:
    """Delete a group and its offsets. Raises BrokerError NON_EMPTY_GROUP if the group has members."""
    order = AdminRequest(
        f"cannot delete group {group_id}",
        DeleteGroupsRequest(groups_names=[group_id]),
        lambda response: only(response.results),
        done_before=ErrorCode.GROUP_ID_NOT_FOUND,
    )
    yield from ask(order, coordinator(group_id))


def _assignment(group_id: str, member: Any) -> tuple[TopicPartition, ...]:
    """Return the partitions that the group's leader assigned to *member*, or no partitions if the assignment
    cannot be parsed."""
    content = bytes(member.member_assignment)
    try:
        topics = ConsumerProtocolAssignment.decode_blob(content).assigned_partitions if content else []
    except ProtocolError as error:
        _left_out("assignment", group_id, member, error)
        return ()
    return tuple(
        sorted(TopicPartition(topic.topic, number) for topic in topics for number in topic.partitions)
    )


def _subscription(group_id: str, member: Any) -> tuple[str, ...]:
    """Return the topics to which *member* subscribes, or no topics if its subscription cannot be parsed."""
    try:
        return tuple(sorted(subscribed_topics(member))) if member.member_metadata else ()
    except ProtocolError as error:
        _left_out("subscription", group_id, member, error)
        return ()


def _left_out(what: str, group_id: str, member: Any, error: ProtocolError) -> None:
    _log.warning(
        "group %s: the description leaves out the %s of member %s, which cannot be parsed: %s",
        group_id,
        what,
        member.member_id,
        error,
    )
