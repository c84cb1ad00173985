"""The messages of the protocol: requests, responses, and the structures in them.

The module of a message is imported when the message is first used. So a program that only sends records
imports no messages of groups.
"""

import sys
from typing import TYPE_CHECKING, Final

from pyklient.lazy_imports import on_first_use
from pyklient.protocol.schema import ApiMessage

if TYPE_CHECKING:
    from pyklient.protocol.messages.by_api_key import REQUESTS, RESPONSES
    from pyklient.protocol.messages.configs import DescribeConfigsRequest, DescribeConfigsResponse
    from pyklient.protocol.messages.fetch import FetchRequest, FetchResponse
    from pyklient.protocol.messages.groups import (
        DeleteGroupsRequest,
        DeleteGroupsResponse,
        DescribeGroupsRequest,
        DescribeGroupsResponse,
        ListGroupsRequest,
        ListGroupsResponse,
    )
    from pyklient.protocol.messages.handshake import (
        ApiVersionsRequest,
        ApiVersionsResponse,
        RequestHeader,
        ResponseHeader,
        SaslAuthenticateRequest,
        SaslAuthenticateResponse,
        SaslHandshakeRequest,
        SaslHandshakeResponse,
    )
    from pyklient.protocol.messages.membership import (
        ConsumerProtocolAssignment,
        ConsumerProtocolSubscription,
        HeartbeatRequest,
        HeartbeatResponse,
        JoinGroupRequest,
        JoinGroupResponse,
        LeaveGroupRequest,
        LeaveGroupResponse,
        SyncGroupRequest,
        SyncGroupResponse,
    )
    from pyklient.protocol.messages.metadata import (
        DescribeClusterRequest,
        DescribeClusterResponse,
        FindCoordinatorRequest,
        FindCoordinatorResponse,
        MetadataRequest,
        MetadataResponse,
    )
    from pyklient.protocol.messages.offset_commit import (
        OffsetCommitRequest,
        OffsetCommitResponse,
        OffsetFetchRequest,
        OffsetFetchResponse,
    )
    from pyklient.protocol.messages.offset_lookup import (
        ListOffsetsRequest,
        ListOffsetsResponse,
        OffsetForLeaderEpochRequest,
        OffsetForLeaderEpochResponse,
    )
    from pyklient.protocol.messages.produce import (
        InitProducerIdRequest,
        InitProducerIdResponse,
        ProduceRequest,
        ProduceResponse,
    )
    from pyklient.protocol.messages.topics import (
        CreatePartitionsRequest,
        CreatePartitionsResponse,
        CreateTopicsRequest,
        CreateTopicsResponse,
        DeleteTopicsRequest,
        DeleteTopicsResponse,
    )
    from pyklient.protocol.messages.transactions import (
        AddOffsetsToTxnRequest,
        AddOffsetsToTxnResponse,
        AddPartitionsToTxnRequest,
        AddPartitionsToTxnResponse,
        DescribeProducersRequest,
        DescribeProducersResponse,
        DescribeTransactionsRequest,
        DescribeTransactionsResponse,
        EndTxnRequest,
        EndTxnResponse,
        ListTransactionsRequest,
        ListTransactionsResponse,
        TxnOffsetCommitRequest,
        TxnOffsetCommitResponse,
        WriteTxnMarkersRequest,
        WriteTxnMarkersResponse,
    )

__all__ = [
    "REQUESTS",
    "RESPONSES",
    "RESPONSE_TO",
    "RequestHeader",
    "ResponseHeader",
    "ApiVersionsRequest",
    "ApiVersionsResponse",
    "SaslHandshakeRequest",
    "SaslHandshakeResponse",
    "SaslAuthenticateRequest",
    "SaslAuthenticateResponse",
    "MetadataRequest",
    "MetadataResponse",
    "DescribeClusterRequest",
    "DescribeClusterResponse",
    "FindCoordinatorRequest",
    "FindCoordinatorResponse",
    "ProduceRequest",
    "ProduceResponse",
    "InitProducerIdRequest",
    "InitProducerIdResponse",
    "FetchRequest",
    "FetchResponse",
    "ListOffsetsRequest",
    "ListOffsetsResponse",
    "OffsetForLeaderEpochRequest",
    "OffsetForLeaderEpochResponse",
    "JoinGroupRequest",
    "JoinGroupResponse",
    "SyncGroupRequest",
    "SyncGroupResponse",
    "HeartbeatRequest",
    "HeartbeatResponse",
    "LeaveGroupRequest",
    "LeaveGroupResponse",
    "ConsumerProtocolSubscription",
    "ConsumerProtocolAssignment",
    "DescribeGroupsRequest",
    "DescribeGroupsResponse",
    "ListGroupsRequest",
    "ListGroupsResponse",
    "DeleteGroupsRequest",
    "DeleteGroupsResponse",
    "OffsetCommitRequest",
    "OffsetCommitResponse",
    "OffsetFetchRequest",
    "OffsetFetchResponse",
    "CreateTopicsRequest",
    "CreateTopicsResponse",
    "DeleteTopicsRequest",
    "DeleteTopicsResponse",
    "CreatePartitionsRequest",
    "CreatePartitionsResponse",
    "DescribeConfigsRequest",
    "DescribeConfigsResponse",
    "AddPartitionsToTxnRequest",
    "AddPartitionsToTxnResponse",
    "AddOffsetsToTxnRequest",
    "AddOffsetsToTxnResponse",
    "EndTxnRequest",
    "EndTxnResponse",
    "TxnOffsetCommitRequest",
    "TxnOffsetCommitResponse",
    "WriteTxnMarkersRequest",
    "WriteTxnMarkersResponse",
    "DescribeProducersRequest",
    "DescribeProducersResponse",
    "DescribeTransactionsRequest",
    "DescribeTransactionsResponse",
    "ListTransactionsRequest",
    "ListTransactionsResponse",
]

_APIS: Final = {
    "configs": "DescribeConfigs",
    "fetch": "Fetch",
    "groups": "DeleteGroups DescribeGroups ListGroups",
    "handshake": "ApiVersions SaslAuthenticate SaslHandshake",
    "membership": "Heartbeat JoinGroup LeaveGroup SyncGroup",
    "metadata": "DescribeCluster FindCoordinator Metadata",
    "offset_commit": "OffsetCommit OffsetFetch",
    "offset_lookup": "ListOffsets OffsetForLeaderEpoch",
    "produce": "InitProducerId Produce",
    "topics": "CreatePartitions CreateTopics DeleteTopics",
    "transactions": "AddOffsetsToTxn AddPartitionsToTxn DescribeProducers DescribeTransactions EndTxn "
    "ListTransactions TxnOffsetCommit WriteTxnMarkers",
}
"""The requests in each module. The module also has the responses to these requests."""

_OTHERS: Final = {
    "by_api_key": "REQUESTS RESPONSES",
    "handshake": "RequestHeader ResponseHeader",
    "membership": "ConsumerProtocolAssignment ConsumerProtocolSubscription",
}
_HOME_OF: Final = {
    name: f"pyklient.protocol.messages.{module}"
    for module, names in (
        *(
            (module, f"{api}{kind}")
            for module, apis in _APIS.items()
            for api in apis.split()
            for kind in ("Request", "Response")
        ),
        *_OTHERS.items(),
    )
    for name in names.split()
}


if not TYPE_CHECKING:  # to a type checker, a name that is not above is a mistake
    __getattr__ = on_first_use(globals(), _HOME_OF)


class _ByRequest(dict[type[ApiMessage], type[ApiMessage]]):
    def __missing__(self, request: type[ApiMessage]) -> type[ApiMessage]:
        name = request.__name__.removesuffix("Request") + "Response"
        response: type[ApiMessage] = getattr(sys.modules[request.__module__], name)
        self[request] = response
        return response


RESPONSE_TO: Final = _ByRequest()
"""The class of the response to each class of requests. Both are in the same module."""
