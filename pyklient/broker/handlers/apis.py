"""What the broker does for each request: a table of functions from request to response.

A name that is not in the table does not exist for clients either, since ApiVersions is answered from it.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from pyklient.broker.handlers.describe_configs import describe_configs
from pyklient.broker.handlers.fetch import fetch
from pyklient.broker.handlers.group_admin import delete_groups, describe_groups, list_groups
from pyklient.broker.handlers.group_membership import heartbeat, join_group, leave_group, sync_group
from pyklient.broker.handlers.list_offsets import list_offsets, offset_for_leader_epoch
from pyklient.broker.handlers.metadata import describe_cluster, find_coordinator, metadata
from pyklient.broker.handlers.offset_commit import offset_commit, offset_fetch
from pyklient.broker.handlers.produce import init_producer_id, produce
from pyklient.broker.handlers.request_context import Call, Reply
from pyklient.broker.handlers.topic_admin import create_partitions, create_topics, delete_topics
from pyklient.broker.node import Node
from pyklient.error_codes import ErrorCode
from pyklient.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteGroupsRequest,
    DeleteTopicsRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeGroupsRequest,
    FetchRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    InitProducerIdRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
    ProduceRequest,
    SyncGroupRequest,
)
from pyklient.protocol.schema import ApiMessage

__all__ = ["Call", "HANDLERS", "Handler", "Reply", "api_versions"]

Handler: TypeAlias = Callable[[Node, Any, Call], ApiMessage | Reply | Awaitable[ApiMessage | Reply]]


def api_versions(error_code: int = ErrorCode.NONE) -> ApiVersionsResponse:
    """Every request that is served here, in every version there is of it."""
    return ApiVersionsResponse(
        error_code=error_code,
        api_keys=[
            ApiVersionsResponse.ApiVersion(
                api_key=request.api_key, min_version=request.versions[0], max_version=request.versions[1]
            )
            for request in sorted(HANDLERS, key=lambda request: request.api_key)
        ],
    )


def _api_versions(_node: Node, _request: ApiVersionsRequest, _call: Call) -> ApiVersionsResponse:
    return api_versions()


HANDLERS: dict[type[ApiMessage], Handler] = {
    ApiVersionsRequest: _api_versions,
    MetadataRequest: metadata,
    DescribeClusterRequest: describe_cluster,
    FindCoordinatorRequest: find_coordinator,
    ProduceRequest: produce,
    InitProducerIdRequest: init_producer_id,
    FetchRequest: fetch,
    ListOffsetsRequest: list_offsets,
    OffsetForLeaderEpochRequest: offset_for_leader_epoch,
    JoinGroupRequest: join_group,
    SyncGroupRequest: sync_group,
    HeartbeatRequest: heartbeat,
    LeaveGroupRequest: leave_group,
    OffsetCommitRequest: offset_commit,
    OffsetFetchRequest: offset_fetch,
    DescribeGroupsRequest: describe_groups,
    ListGroupsRequest: list_groups,
    DeleteGroupsRequest: delete_groups,
    CreateTopicsRequest: create_topics,
    DeleteTopicsRequest: delete_topics,
    CreatePartitionsRequest: create_partitions,
    DescribeConfigsRequest: describe_configs,
}
