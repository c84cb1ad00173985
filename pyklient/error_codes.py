"""What Kafka's error codes mean, in one table: name, whether to try again, and a sentence for people."""

from typing import Final, NamedTuple

__all__ = ["ErrorFacts", "error_facts"]


class ErrorFacts(NamedTuple):
    """What is known about one error code of the protocol."""

    code: int
    name: str
    retriable: bool
    refresh_metadata: bool
    sentence: str


_FINAL: Final = (False, False)
_RETRY: Final = (True, False)
_REFRESH: Final = (True, True)

_TABLE: Final = (
    (-1, "UNKNOWN_SERVER_ERROR", _FINAL, "the broker failed in a way it has no code for; its log says more"),
    (0, "NONE", _FINAL, "no error"),
    (
        1,
        "OFFSET_OUT_OF_RANGE",
        _FINAL,
        "the offset is not in the log: too old and deleted, or not written yet",
    ),
    (2, "CORRUPT_MESSAGE", _RETRY, "the broker found the record bytes damaged"),
    (3, "UNKNOWN_TOPIC_OR_PARTITION", _REFRESH, "no such topic or partition on this broker"),
    (4, "INVALID_FETCH_SIZE", _FINAL, "the fetch size is not allowed"),
    (5, "LEADER_NOT_AVAILABLE", _REFRESH, "the partition has no leader at the moment"),
    (6, "NOT_LEADER_OR_FOLLOWER", _REFRESH, "this broker does not lead the partition (any more)"),
    (7, "REQUEST_TIMED_OUT", _RETRY, "the broker could not finish within the request's time-out"),
    (8, "BROKER_NOT_AVAILABLE", _FINAL, "the broker is not there"),
    (9, "REPLICA_NOT_AVAILABLE", _REFRESH, "this broker has no usable replica of the partition"),
    (10, "MESSAGE_TOO_LARGE", _FINAL, "the message is larger than max.message.bytes of the topic or broker"),
    (11, "STALE_CONTROLLER_EPOCH", _FINAL, "another controller has taken over since"),
    (
        12,
        "OFFSET_METADATA_TOO_LARGE",
        _FINAL,
        "the text committed with the offset is longer than offset.metadata.max.bytes",
    ),
    (13, "NETWORK_EXCEPTION", _REFRESH, "the connection broke before the response"),
    (
        14,
        "COORDINATOR_LOAD_IN_PROGRESS",
        _RETRY,
        "the coordinator is still loading the group's or transaction's state",
    ),
    (
        15,
        "COORDINATOR_NOT_AVAILABLE",
        _RETRY,
        "there is no coordinator yet; the internal topic behind it may lack brokers",
    ),
    (16, "NOT_COORDINATOR", _RETRY, "this broker is not the coordinator (any more)"),
    (
        17,
        "INVALID_TOPIC_EXCEPTION",
        _FINAL,
        "the topic's name is not allowed: 1 to 249 of a-z A-Z 0-9 . _ - and not internal",
    ),
    (18, "RECORD_LIST_TOO_LARGE", _FINAL, "the batch is larger than the log's segments; lower batch_size"),
    (19, "NOT_ENOUGH_REPLICAS", _RETRY, "fewer replicas are in sync than min.insync.replicas asks for"),
    (
        20,
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        _RETRY,
        "the records were written, but to fewer replicas than min.insync.replicas asks for",
    ),
    (21, "INVALID_REQUIRED_ACKS", _FINAL, "acks must be 0, 1 or all"),
    (
        22,
        "ILLEGAL_GENERATION",
        _FINAL,
        "the group has moved on to another generation; the member must join again",
    ),
    (
        23,
        "INCONSISTENT_GROUP_PROTOCOL",
        _FINAL,
        "the member's protocols and those of the group have nothing in common",
    ),
    (24, "INVALID_GROUP_ID", _FINAL, "the group id is empty or not allowed"),
    (25, "UNKNOWN_MEMBER_ID", _FINAL, "the group does not know this member (any more); it must join again"),
    (
        26,
        "INVALID_SESSION_TIMEOUT",
        _FINAL,
        "session_timeout_ms is outside what the broker allows (group.min/max.session.timeout.ms)",
    ),
    (27, "REBALANCE_IN_PROGRESS", _FINAL, "the group is rebalancing; the member must join again"),
    (28, "INVALID_COMMIT_OFFSET_SIZE", _FINAL, "the offsets to commit are larger than a message may be"),
    (29, "TOPIC_AUTHORIZATION_FAILED", _FINAL, "no permission for the topic; an ACL for this user is needed"),
    (30, "GROUP_AUTHORIZATION_FAILED", _FINAL, "no permission for the group; an ACL for this user is needed"),
    (
        31,
        "CLUSTER_AUTHORIZATION_FAILED",
        _FINAL,
        "no permission for this on the cluster; an ACL for this user is needed",
    ),
    (32, "INVALID_TIMESTAMP", _FINAL, "the record's timestamp is outside what the topic allows"),
    (
        33,
        "UNSUPPORTED_SASL_MECHANISM",
        _FINAL,
        "the broker does not offer this SASL mechanism; see sasl_mechanism",
    ),
    (34, "ILLEGAL_SASL_STATE", _FINAL, "this request is not allowed at this point of the SASL exchange"),
    (35, "UNSUPPORTED_VERSION", _FINAL, "the broker does not know this version of the request"),
    (36, "TOPIC_ALREADY_EXISTS", _FINAL, "the topic exists already"),
    (37, "INVALID_PARTITIONS", _FINAL, "the number of partitions is not allowed; it can only grow"),
    (
        38,
        "INVALID_REPLICATION_FACTOR",
        _FINAL,
        "the replication factor is below 1 or above the number of brokers",
    ),
    (39, "INVALID_REPLICA_ASSIGNMENT", _FINAL, "the replica assignment is not allowed"),
    (40, "INVALID_CONFIG", _FINAL, "a configuration entry is unknown or its value not allowed"),
    (41, "NOT_CONTROLLER", _RETRY, "this broker is not the controller (any more)"),
    (42, "INVALID_REQUEST", _FINAL, "the request contradicts itself, or the broker cannot read it"),
    (
        43,
        "UNSUPPORTED_FOR_MESSAGE_FORMAT",
        _FINAL,
        "the records' format on the broker cannot do this; the topic's data is too old",
    ),
    (44, "POLICY_VIOLATION", _FINAL, "a policy of the cluster forbids it"),
    (
        45,
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        _FINAL,
        "a record came out of order; an earlier one of this producer is missing",
    ),
    (46, "DUPLICATE_SEQUENCE_NUMBER", _FINAL, "the broker has this batch already"),
    (47, "INVALID_PRODUCER_EPOCH", _FINAL, "a newer producer with the same transactional id has taken over"),
    (48, "INVALID_TXN_STATE", _FINAL, "the transaction is in a state in which this cannot be done"),
    (49, "INVALID_PRODUCER_ID_MAPPING", _FINAL, "the transactional id belongs to another producer id"),
    (
        50,
        "INVALID_TRANSACTION_TIMEOUT",
        _FINAL,
        "the transaction time-out is above the broker's transaction.max.timeout.ms",
    ),
    (51, "CONCURRENT_TRANSACTIONS", _RETRY, "the last transaction of this id is still being completed"),
    (52, "TRANSACTION_COORDINATOR_FENCED", _FINAL, "another transaction coordinator has taken over"),
    (53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", _FINAL, "no permission for the transactional id"),
    (54, "SECURITY_DISABLED", _FINAL, "the broker has security switched off"),
    (
        55,
        "OPERATION_NOT_ATTEMPTED",
        _FINAL,
        "not tried, because something before it failed; see the other errors",
    ),
    (56, "KAFKA_STORAGE_ERROR", _REFRESH, "the broker cannot read or write its disk"),
    (57, "LOG_DIR_NOT_FOUND", _FINAL, "the broker does not have this log directory"),
    (
        58,
        "SASL_AUTHENTICATION_FAILED",
        _FINAL,
        "the broker refused the credentials; check user name, password and mechanism",
    ),
    (
        59,
        "UNKNOWN_PRODUCER_ID",
        _FINAL,
        "the broker has forgotten this producer; its records may have been deleted",
    ),
    (60, "REASSIGNMENT_IN_PROGRESS", _FINAL, "the partition is being moved to other brokers"),
    (61, "DELEGATION_TOKEN_AUTH_DISABLED", _FINAL, "delegation tokens are not enabled on this listener"),
    (62, "DELEGATION_TOKEN_NOT_FOUND", _FINAL, "no such delegation token"),
    (63, "DELEGATION_TOKEN_OWNER_MISMATCH", _FINAL, "the delegation token belongs to somebody else"),
    (
        64,
        "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED",
        _FINAL,
        "delegation tokens need a connection that has authenticated itself otherwise",
    ),
    (65, "DELEGATION_TOKEN_AUTHORIZATION_FAILED", _FINAL, "no permission for the delegation token"),
    (66, "DELEGATION_TOKEN_EXPIRED", _FINAL, "the delegation token has expired"),
    (67, "INVALID_PRINCIPAL_TYPE", _FINAL, "this type of principal is not supported"),
    (68, "NON_EMPTY_GROUP", _FINAL, "the group still has members; stop them first"),
    (69, "GROUP_ID_NOT_FOUND", _FINAL, "no such group"),
    (
        70,
        "FETCH_SESSION_ID_NOT_FOUND",
        _RETRY,
        "the broker has dropped the fetch session; the next fetch opens another",
    ),
    (
        71,
        "INVALID_FETCH_SESSION_EPOCH",
        _RETRY,
        "the fetch session is out of step; the next fetch opens another",
    ),
    (
        72,
        "LISTENER_NOT_FOUND",
        _REFRESH,
        "the leader has no listener of the name that this connection came in by",
    ),
    (73, "TOPIC_DELETION_DISABLED", _FINAL, "topics cannot be deleted: delete.topic.enable is off"),
    (
        74,
        "FENCED_LEADER_EPOCH",
        _REFRESH,
        "the leader epoch is older than the broker's; fresh metadata is needed",
    ),
    (
        75,
        "UNKNOWN_LEADER_EPOCH",
        _RETRY,
        "the leader epoch is newer than the broker's; it has yet to catch up",
    ),
    (
        76,
        "UNSUPPORTED_COMPRESSION_TYPE",
        _FINAL,
        "the broker does not know this compression codec; choose another compression_type",
    ),
    (77, "STALE_BROKER_EPOCH", _FINAL, "the broker has registered again since"),
    (78, "OFFSET_NOT_AVAILABLE", _RETRY, "the new leader does not yet know how far readers may go"),
    (79, "MEMBER_ID_REQUIRED", _FINAL, "the member has been given an id and must join again with it"),
    (80, "PREFERRED_LEADER_NOT_AVAILABLE", _REFRESH, "the preferred leader is not in sync"),
    (81, "GROUP_MAX_SIZE_REACHED", _FINAL, "the group is full: group.max.size"),
    (82, "FENCED_INSTANCE_ID", _FINAL, "another member with the same group_instance_id has taken over"),
    (83, "ELIGIBLE_LEADERS_NOT_AVAILABLE", _REFRESH, "no replica may become the leader"),
    (84, "ELECTION_NOT_NEEDED", _REFRESH, "the partition has the leader it should have"),
    (85, "NO_REASSIGNMENT_IN_PROGRESS", _FINAL, "the partition is not being moved"),
    (86, "GROUP_SUBSCRIBED_TO_TOPIC", _FINAL, "a group with members is subscribed to the topic"),
    (87, "INVALID_RECORD", _FINAL, "the broker's checks refused a record"),
    (88, "UNSTABLE_OFFSET_COMMIT", _RETRY, "a transaction on these offsets is not decided yet"),
    (89, "THROTTLING_QUOTA_EXCEEDED", _RETRY, "a quota has been used up; slow down"),
    (90, "PRODUCER_FENCED", _FINAL, "a newer producer with the same transactional id has taken over"),
    (91, "RESOURCE_NOT_FOUND", _FINAL, "no such resource"),
    (92, "DUPLICATE_RESOURCE", _FINAL, "the resource is named twice, or exists already"),
    (93, "UNACCEPTABLE_CREDENTIAL", _FINAL, "the credential is not allowed"),
    (94, "INCONSISTENT_VOTER_SET", _FINAL, "the voters named are not those of the quorum"),
    (95, "INVALID_UPDATE_VERSION", _FINAL, "the feature version is not allowed"),
    (96, "FEATURE_UPDATE_FAILED", _FINAL, "the features could not be changed; the broker's log says more"),
    (
        97,
        "PRINCIPAL_DESERIALIZATION_FAILURE",
        _FINAL,
        "the broker could not read the principal of a forwarded request",
    ),
    (98, "SNAPSHOT_NOT_FOUND", _FINAL, "no such snapshot"),
    (99, "POSITION_OUT_OF_RANGE", _FINAL, "the position is outside the snapshot"),
    (
        100,
        "UNKNOWN_TOPIC_ID",
        _REFRESH,
        "the topic id is not known here; the topic may have been deleted or created again",
    ),
    (101, "DUPLICATE_BROKER_REGISTRATION", _FINAL, "a broker with this id is running already"),
    (102, "BROKER_ID_NOT_REGISTERED", _FINAL, "no broker has registered with this id"),
    (
        103,
        "INCONSISTENT_TOPIC_ID",
        _REFRESH,
        "the topic id is not that of the log; the topic was created again",
    ),
    (
        104,
        "INCONSISTENT_CLUSTER_ID",
        _FINAL,
        "the cluster id is not this cluster's; the address may belong to another one",
    ),
    (105, "TRANSACTIONAL_ID_NOT_FOUND", _FINAL, "no such transactional id"),
    (
        106,
        "FETCH_SESSION_TOPIC_ID_ERROR",
        _RETRY,
        "the fetch session began without topic ids, or with them; open another",
    ),
    (107, "INELIGIBLE_REPLICA", _FINAL, "the replica may not join the in-sync set"),
    (108, "NEW_LEADER_ELECTED", _FINAL, "another leader was elected because of this change"),
    (109, "OFFSET_MOVED_TO_TIERED_STORAGE", _FINAL, "the offset is only in tiered storage"),
    (110, "FENCED_MEMBER_EPOCH", _FINAL, "the member's epoch is not the group's; it must join again"),
    (111, "UNRELEASED_INSTANCE_ID", _FINAL, "another member with this group_instance_id has yet to leave"),
    (112, "UNSUPPORTED_ASSIGNOR", _FINAL, "the broker does not know this assignor"),
    (
        113,
        "STALE_MEMBER_EPOCH",
        _FINAL,
        "the member's epoch is out of date; it learns the new one by its next heartbeat",
    ),
    (
        114,
        "MISMATCHED_ENDPOINT_TYPE",
        _FINAL,
        "this end of the cluster does not serve this: broker and controller addresses are mixed up",
    ),
    (115, "UNSUPPORTED_ENDPOINT_TYPE", _FINAL, "this kind of endpoint is not known"),
    (116, "UNKNOWN_CONTROLLER_ID", _FINAL, "the controller id is not known"),
    (117, "UNKNOWN_SUBSCRIPTION_ID", _FINAL, "the telemetry subscription is out of date"),
    (118, "TELEMETRY_TOO_LARGE", _FINAL, "the telemetry is larger than the broker takes"),
    (119, "INVALID_REGISTRATION", _FINAL, "the broker's registration is not allowed"),
    (120, "TRANSACTION_ABORTABLE", _FINAL, "the transaction can only be aborted now"),
    (121, "INVALID_RECORD_STATE", _FINAL, "the record is not in a state that allows this acknowledgement"),
    (122, "SHARE_SESSION_NOT_FOUND", _RETRY, "the broker has dropped the share session; open another"),
    (123, "INVALID_SHARE_SESSION_EPOCH", _RETRY, "the share session is out of step; open another"),
    (124, "FENCED_STATE_EPOCH", _FINAL, "the state epoch is older than the one stored"),
    (125, "INVALID_VOTER_KEY", _FINAL, "the voter key is not that of the controller"),
    (126, "DUPLICATE_VOTER", _FINAL, "the voter is one already"),
    (127, "VOTER_NOT_FOUND", _FINAL, "no such voter"),
    (
        128,
        "INVALID_REGULAR_EXPRESSION",
        _FINAL,
        "the regular expression is not allowed (the broker's syntax is RE2/J)",
    ),
    (
        129,
        "REBOOTSTRAP_REQUIRED",
        _FINAL,
        "the broker's metadata is too far from ours; start again from bootstrap_servers",
    ),
    (130, "STREAMS_INVALID_TOPOLOGY", _FINAL, "the topology of the streams application is not allowed"),
    (131, "STREAMS_INVALID_TOPOLOGY_EPOCH", _FINAL, "the topology's epoch is not allowed"),
    (132, "STREAMS_TOPOLOGY_FENCED", _FINAL, "the topology is older than the group's"),
    (133, "SHARE_SESSION_LIMIT_REACHED", _RETRY, "the broker has no room for another share session"),
)
"""Code, name, whether to retry and whether to refresh metadata first, and what has happened."""

_BY_CODE: Final = {
    code: ErrorFacts(code, name, retriable, refresh, sentence)
    for code, name, (retriable, refresh), sentence in _TABLE
}


def error_facts(code: int) -> ErrorFacts:
    """Facts for *code*. A code newer than this table keeps its number and is not retried."""
    return _BY_CODE.get(code) or ErrorFacts(
        code, f"CODE_{code}", False, False, "an error code unknown to this client"
    )
