"""Makes the request for the members of a group (DescribeGroups), and reads its response."""

from typing import Any

from pyklient.errors import ProtocolError
from pyklient.protocol.messages import (
    ConsumerProtocolSubscription,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)

__all__ = ["describe_group_request", "described_group", "subscribed_topics"]


def describe_group_request(group_id: str) -> DescribeGroupsRequest:
    """Return the request for the state and the members of one group."""
    return DescribeGroupsRequest(groups=[group_id])


def described_group(response: DescribeGroupsResponse) -> Any:
    """Return the description of the group in *response*, with its error code. Raises ProtocolError if the
    response does not describe exactly one group."""
    if len(response.groups) != 1:
        raise ProtocolError(f"the broker described {len(response.groups)} groups, but was asked for one")
    return response.groups[0]


def subscribed_topics(member: Any) -> list[str]:
    """Return the topics to which *member* of a described group subscribes.

    Raises ProtocolError if its subscription cannot be parsed. The subscription is empty, and so cannot be
    parsed, while the group rebalances.
    """
    return list(ConsumerProtocolSubscription.decode_blob(bytes(member.member_metadata)).topics)
