"""The tables of all requests and responses, by API key."""

from pyklient.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
)
from pyklient.protocol.messages.fetch import (
    FetchRequest,
    FetchResponse,
)
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
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from pyklient.protocol.messages.membership import (
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
from pyklient.protocol.schema import ApiMessage

__all__ = ["REQUESTS", "RESPONSES"]

REQUESTS: dict[int, type[ApiMessage]] = {
    cls.api_key: cls
    for cls in (
        ApiVersionsRequest,
        SaslHandshakeRequest,
        SaslAuthenticateRequest,
        MetadataRequest,
        DescribeClusterRequest,
        FindCoordinatorRequest,
        ProduceRequest,
        InitProducerIdRequest,
        FetchRequest,
        ListOffsetsRequest,
        OffsetForLeaderEpochRequest,
        JoinGroupRequest,
        SyncGroupRequest,
        HeartbeatRequest,
        LeaveGroupRequest,
        DescribeGroupsRequest,
        ListGroupsRequest,
        DeleteGroupsRequest,
        OffsetCommitRequest,
        OffsetFetchRequest,
        CreateTopicsRequest,
        DeleteTopicsRequest,
        CreatePartitionsRequest,
        DescribeConfigsRequest,
        AddPartitionsToTxnRequest,
        AddOffsetsToTxnRequest,
        EndTxnRequest,
        TxnOffsetCommitRequest,
        WriteTxnMarkersRequest,
        DescribeProducersRequest,
        DescribeTransactionsRequest,
        ListTransactionsRequest,
    )
}
"""The class of each request, by API key."""

RESPONSES: dict[int, type[ApiMessage]] = {
    cls.api_key: cls
    for cls in (
        ApiVersionsResponse,
        SaslHandshakeResponse,
        SaslAuthenticateResponse,
        MetadataResponse,
        DescribeClusterResponse,
        FindCoordinatorResponse,
        ProduceResponse,
        InitProducerIdResponse,
        FetchResponse,
        ListOffsetsResponse,
        OffsetForLeaderEpochResponse,
        JoinGroupResponse,
        SyncGroupResponse,
        HeartbeatResponse,
        LeaveGroupResponse,
        DescribeGroupsResponse,
        ListGroupsResponse,
        DeleteGroupsResponse,
        OffsetCommitResponse,
        OffsetFetchResponse,
        CreateTopicsResponse,
        DeleteTopicsResponse,
        CreatePartitionsResponse,
        DescribeConfigsResponse,
        AddPartitionsToTxnResponse,
        AddOffsetsToTxnResponse,
        EndTxnResponse,
        TxnOffsetCommitResponse,
        WriteTxnMarkersResponse,
        DescribeProducersResponse,
        DescribeTransactionsResponse,
        ListTransactionsResponse,
    )
}
"""The class of each response, by API key."""
