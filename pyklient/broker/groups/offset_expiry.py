"""Decides which committed offsets have expired (KIP-211)."""

from collections.abc import Mapping
from typing import Final

from pyklient.broker.groups.committed_offset import NO_TIMESTAMP, CommittedOffset
from pyklient.broker.groups.group import Group
from pyklient.broker.groups.states import GroupState
from pyklient.errors import ProtocolError
from pyklient.protocol.messages import ConsumerProtocolSubscription
from pyklient.topic_partition import TopicPartition

__all__ = ["expired_offsets"]

_CONSUMER: Final = "consumer"


def expired_offsets(
    group: Group,
    empty_since_ms: int,
    offsets: Mapping[TopicPartition, CommittedOffset],
    retention_ms: int,
    now_ms: int,
) -> list[TopicPartition]:
    """Return the partitions whose committed *offsets* in *group* have expired.

    If the last member has left the group, all offsets expire *retention_ms* after *empty_since_ms*, the time
    at which it left. If the group never had members, an offset expires *retention_ms* after its commit. If
    the group has members, the same applies to offsets of topics to which no member subscribes. No offset
    expires during a rebalance, or if the subscriptions are not known. An offset with an expire timestamp
    expires at that time instead.
    """
    subscribed: set[str] = set()
    if group.protocol_type is not None and group.state is not GroupState.EMPTY:
        found = _subscribed_topics(group)
        if group.state is not GroupState.STABLE or found is None:
            return []
        subscribed = found
    lost_members = group.protocol_type is not None and group.state is GroupState.EMPTY
    expired = []
    for partition, committed in offsets.items():
        if partition.topic in subscribed:
            continue
        if committed.expire_timestamp != NO_TIMESTAMP:
            is_expired = now_ms >= committed.expire_timestamp
        else:
            use_state = lost_members and empty_since_ms != NO_TIMESTAMP
            is_expired = (
                now_ms - (empty_since_ms if use_state else committed.commit_timestamp) >= retention_ms
            )
        if is_expired:
            expired.append(partition)
    return expired


def _subscribed_topics(group: Group) -> set[str] | None:
    """Return the topics to which the members of *group* subscribe. Return None if the members are not
    consumers, or if a subscription cannot be decoded."""
    if group.protocol_type != _CONSUMER:
        return None
    protocol = group.protocol or ""
    try:
        return {
            topic
            for member in group.members.values()
            for topic in ConsumerProtocolSubscription.decode_blob(member.metadata_for(protocol)).topics
        }
    except ProtocolError:
        return None
