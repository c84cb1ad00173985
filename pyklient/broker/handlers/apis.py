"""The table of all APIs that the broker serves, with the handler of each.

The response to an ApiVersions request is made from the table: clients see the APIs in the table, and no
others.
"""

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from pyklient.broker.handlers.describe_configs import describe_configs
from pyklient.broker.handlers.fetch import fetch
from pyklient.broker.handlers.find_coordinator import find_coordinator
from pyklient.broker.handlers.group_admin import delete_groups, describe_groups, list_groups
from pyklient.broker.handlers.group_membership import heartbeat, join_group, leave_group, sync_group
from pyklient.broker.handlers.init_producer_id import init_producer_id
from pyklient.broker.handlers.list_offsets import list_offsets
from pyklient.broker.handlers.metadata import describe_cluster, metadata
from pyklient.broker.handlers.offset_commit import offset_commit
from pyklient.broker.handlers.offset_fetch import offset_fetch
from pyklient.broker.handlers.offset_for_leader_epoch import offset_for_leader_epoch
from pyklient.broker.handlers.produce import produce
from pyklient.broker.handlers.request_context import RequestContext, ResponseWithFiles
from pyklient.broker.handlers.topic_admin import create_partitions, create_topics, delete_topics
from pyklient.broker.handlers.transaction_admin import (
    describe_producers,
    describe_transactions,
    list_transactions,
)
from pyklient.broker.handlers.transactions import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    write_txn_markers,
)
from pyklient.broker.handlers.txn_offset_commit import txn_offset_commit
from pyklient.broker.node_state import NodeState
from pyklient.error_codes import ErrorCode
from pyklient.protocol.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    ApiVersionsRequest,
    ApiVersionsResponse,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteGroupsRequest,
    DeleteTopicsRequest,
    DescribeClusterRequest,
    DescribeConfigsRequest,
    DescribeGroupsRequest,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    EndTxnRequest,
    FetchRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    InitProducerIdRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    ListOffsetsRequest,
    ListTransactionsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
    ProduceRequest,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
    WriteTxnMarkersRequest,
)
from pyklient.protocol.schema import ApiMessage

__all__ = ["HANDLERS", "Handler", "api_versions"]

Handler: TypeAlias = Callable[
    [NodeState, Any, RequestContext],
    ApiMessage | ResponseWithFiles | Awaitable[ApiMessage | ResponseWithFiles],
]


_TRANSACTION_VERSION: Final = "transaction.version"
_FEATURES_FROM_0: Final = 4


def api_versions(
    transaction_version: int, version: int, error_code: int = ErrorCode.NONE
) -> ApiVersionsResponse:
    """Return the response to an ApiVersions request of *version*: each API in the table of handlers, with the
    versions of its requests that this broker can decode.

    The features in the response tell producers which version of transactions they may use (KIP-890). As in
    Kafka, a feature of level 0 is not listed.
    """
    features = [_TRANSACTION_VERSION] if transaction_version else []
    return ApiVersionsResponse(
        supported_features=[
            ApiVersionsResponse.SupportedFeatureKey(
                name=name,
                # Java's clients before version 4 of the request reject 0.
                min_version=0 if version >= _FEATURES_FROM_0 else 1,
                max_version=transaction_version,
            )
            for name in features
        ],
        finalized_features_epoch=0,
        finalized_features=[
            ApiVersionsResponse.FinalizedFeatureKey(
                name=name, min_version_level=transaction_version, max_version_level=transaction_version
            )
            for name in features
        ],
        error_code=error_code,
        api_keys=[
            ApiVersionsResponse.ApiVersion(
                api_key=request.api_key, min_version=request.versions[0], max_version=request.versions[1]
            )
            for request in sorted(HANDLERS, key=lambda request: request.api_key)
        ],
    )


def _api_versions(
    node: NodeState, _request: ApiVersionsRequest, context: RequestContext
) -> ApiVersionsResponse:
    return api_versions(node.config.transaction_version, context.version)


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
    AddPartitionsToTxnRequest: add_partitions_to_txn,
    AddOffsetsToTxnRequest: add_offsets_to_txn,
    EndTxnRequest: end_txn,
    WriteTxnMarkersRequest: write_txn_markers,
    TxnOffsetCommitRequest: txn_offset_commit,
    DescribeProducersRequest: describe_producers,
    DescribeTransactionsRequest: describe_transactions,
    ListTransactionsRequest: list_transactions,
}
