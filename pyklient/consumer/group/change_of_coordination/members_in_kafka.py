"""Makes a member with ``coordination="zookeeper"`` wait until its group has no members that Kafka coordinates
and that read the same topics."""

import logging
from functools import partial
from typing import Any, Final

from pyklient.consumer.group.change_of_coordination.end_of_members import await_end_of_members
from pyklient.consumer.group.subscription import Subscription
from pyklient.error_codes import ErrorCode
from pyklient.errors import (
    ClosedError,
    ForkError,
    KafkaError,
    ProtocolError,
    UnsupportedVersionError,
    broker_error,
)
from pyklient.net.dialogue import ANY, Ask, Dialogue, Pause, Refresh, retried
from pyklient.net.lookups.find_coordinator import OFFSETS_TOPIC, find_coordinator
from pyklient.net.lookups.group_description import (
    describe_group_request,
    described_group,
    subscribed_topics,
)
from pyklient.net.metadata import Metadata
from pyklient.net.network_client import NetworkClient

__all__ = ["wait_for_members_in_kafka"]

log = logging.getLogger("pyklient.consumer")

_FIRST_LOOK_SECONDS: Final = 5.0


def wait_for_members_in_kafka(
    client: NetworkClient, group_id: str, subscription: Subscription, timeout: float
) -> None:
    """Wait until the group *group_id* has no members that Kafka coordinates and that read a topic of
    *subscription*. Raise KafkaTimeoutError after *timeout* seconds.

    Members that were killed count until the coordinator removes them, after their session time-outs. If the
    brokers do not answer, log a warning and return, because a group in ZooKeeper works without a group
    coordinator.
    """
    look = partial(_members_in_kafka, group_id, subscription)
    try:
        members = client.play(look(), min(timeout, _FIRST_LOOK_SECONDS))
    except (ClosedError, ForkError):
        raise
    except UnsupportedVersionError:  # brokers before Kafka 0.9 coordinate no groups
        return
    except KafkaError as error:
        log.warning(
            "group %s: cannot find out whether the group has members with coordination='kafka', which would "
            "read the same partitions at the same time: %s",
            group_id,
            error,
        )
        return
    if members:
        client.play(
            await_end_of_members(group_id, "kafka", members, look, Pause, timeout),
            timeout + _FIRST_LOOK_SECONDS,
        )


def _members_in_kafka(group_id: str, subscription: Subscription) -> Dialogue[list[str]]:
    """Return the ids of the members of *group_id* that Kafka coordinates and that read a topic of
    *subscription*. A member whose topics are not known yet counts too."""
    return (yield from retried(partial(_look, group_id, subscription)))


def _look(group_id: str, subscription: Subscription) -> Dialogue[list[str]]:
    metadata: Metadata = yield Refresh((OFFSETS_TOPIC,), known_ok=True)
    topic = metadata.topics.get(OFFSETS_TOPIC)
    node_id = ANY  # because a search for the coordinator would create the topic
    if topic is not None and topic.error != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        node_id = yield from find_coordinator(group_id)
    group = described_group((yield Ask(node_id, describe_group_request(group_id))))
    nobody = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    if group.error_code == ErrorCode.GROUP_ID_NOT_FOUND or (node_id == ANY and group.error_code in nobody):
        return []
    if group.error_code:
        raise broker_error(group.error_code, f"cannot describe group {group_id}")
    return [member.member_id for member in group.members if _may_read(member, subscription)]


def _may_read(member: Any, subscription: Subscription) -> bool:
    """Return True if *member* may read a topic of *subscription*. *member* is an entry of the response to
    DescribeGroups."""
    try:
        topics = subscribed_topics(member)
    except ProtocolError:  # while a group rebalances, brokers do not tell what its members read
        return True
    return any(map(subscription.selects, topics))
