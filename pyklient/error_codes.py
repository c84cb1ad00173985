"""Kafka's error codes: name, number, whether a retry helps, and a description."""

from enum import IntEnum
from typing import Final, NamedTuple

__all__ = ["ErrorCode", "ErrorFacts", "error_facts"]


class ErrorFacts(NamedTuple):
    """The properties of an error code: its number and name, whether a retry may succeed, whether the client
    should first ask for new metadata, and a sentence that describes the error."""

    code: int
    name: str
    retriable: bool
    refresh_metadata: bool
    sentence: str


_FINAL: Final = (False, False)
_RETRY: Final = (True, False)
_REFRESH: Final = (True, True)


class ErrorCode(IntEnum):
    """The error codes of the protocol. *again* says whether a retry may succeed, and whether the client
    should first ask for new metadata. *sentence* describes the error. Each code has these properties in
    ``facts``."""

    facts: ErrorFacts

    def __new__(cls, code: int, _: tuple[bool, bool], __: str) -> "ErrorCode":
        member = int.__new__(cls, code)
        member._value_ = code
        return member

    def __init__(self, code: int, again: tuple[bool, bool], sentence: str) -> None:
        self.facts = ErrorFacts(code, self.name, *again, sentence)

    UNKNOWN_SERVER_ERROR = -1, _FINAL, "the broker had an unexpected failure; see its log"
    NONE = 0, _FINAL, "no error"
    OFFSET_OUT_OF_RANGE = 1, _FINAL, "the offset is not in the log: too old and deleted, or not written yet"
    CORRUPT_MESSAGE = 2, _RETRY, "the broker found the record bytes damaged"
    UNKNOWN_TOPIC_OR_PARTITION = 3, _REFRESH, "no such topic or partition on this broker"
    INVALID_FETCH_SIZE = 4, _FINAL, "the fetch size is not allowed"
    LEADER_NOT_AVAILABLE = 5, _REFRESH, "the partition has no leader at the moment"
    NOT_LEADER_OR_FOLLOWER = 6, _REFRESH, "this broker does not lead the partition (any more)"
    REQUEST_TIMED_OUT = 7, _RETRY, "the broker could not finish within the request's time-out"
    BROKER_NOT_AVAILABLE = 8, _FINAL, "the broker is not available"
    REPLICA_NOT_AVAILABLE = 9, _REFRESH, "this broker has no usable replica of the partition"
    MESSAGE_TOO_LARGE = 10, _FINAL, "the message is larger than max.message.bytes of the topic or broker"
    STALE_CONTROLLER_EPOCH = 11, _FINAL, "another controller has taken over"
    OFFSET_METADATA_TOO_LARGE = (
        12,
        _FINAL,
        "the text committed with the offset is longer than offset.metadata.max.bytes",
    )
    NETWORK_EXCEPTION = 13, _REFRESH, "the connection broke before the response"
    COORDINATOR_LOAD_IN_PROGRESS = (
        14,
        _RETRY,
        "the coordinator is still loading the group's or transaction's state",
    )
    COORDINATOR_NOT_AVAILABLE = (
        15,
        _RETRY,
        "there is no coordinator yet; its internal topic may lack brokers",
    )
    NOT_COORDINATOR = 16, _RETRY, "this broker is not the coordinator (any more)"
    INVALID_TOPIC_EXCEPTION = (
        17,
        _FINAL,
        "the topic's name is not allowed: 1 to 249 of a-z A-Z 0-9 . _ - and not internal",
    )
    RECORD_LIST_TOO_LARGE = 18, _FINAL, "the batch is larger than the log's segments; lower batch_size"
    NOT_ENOUGH_REPLICAS = 19, _RETRY, "fewer replicas are in sync than min.insync.replicas asks for"
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (
        20,
        _RETRY,
        "the records were written, but to fewer replicas than min.insync.replicas asks for",
    )
    INVALID_REQUIRED_ACKS = 21, _FINAL, "acks must be 0, 1 or all"
    ILLEGAL_GENERATION = (
        22,
        _FINAL,
        "the group has moved on to another generation; the member must join again",
    )
    INCONSISTENT_GROUP_PROTOCOL = (
        23,
        _FINAL,
        "the member's protocols and those of the group have nothing in common",
    )
    INVALID_GROUP_ID = 24, _FINAL, "the group id is empty or not allowed"
    UNKNOWN_MEMBER_ID = 25, _FINAL, "the group does not know this member (any more); it must join again"
    INVALID_SESSION_TIMEOUT = (
        26,
        _FINAL,
        "session_timeout_ms is outside what the broker allows (group.min/max.session.timeout.ms; by default, "
        "brokers before 0.10.1 allow at most 30000)",
    )
    REBALANCE_IN_PROGRESS = 27, _FINAL, "the group is rebalancing; the member must join again"
    INVALID_COMMIT_OFFSET_SIZE = 28, _FINAL, "the offsets to commit are larger than a message may be"
    TOPIC_AUTHORIZATION_FAILED = 29, _FINAL, "no permission for the topic; an ACL for this user is needed"
    GROUP_AUTHORIZATION_FAILED = 30, _FINAL, "no permission for the group; an ACL for this user is needed"
    CLUSTER_AUTHORIZATION_FAILED = (
        31,
        _FINAL,
        "no permission for this on the cluster; an ACL for this user is needed",
    )
    INVALID_TIMESTAMP = 32, _FINAL, "the record's timestamp is outside what the topic allows"
    UNSUPPORTED_SASL_MECHANISM = (
        33,
        _FINAL,
        "the broker does not offer this SASL mechanism; see sasl_mechanism",
    )
    ILLEGAL_SASL_STATE = 34, _FINAL, "this request is not allowed at this point of the SASL exchange"
    UNSUPPORTED_VERSION = 35, _FINAL, "the broker does not know this version of the request"
    TOPIC_ALREADY_EXISTS = 36, _FINAL, "the topic exists already"
    INVALID_PARTITIONS = 37, _FINAL, "the number of partitions is not allowed; it can only grow"
    INVALID_REPLICATION_FACTOR = (
        38,
        _FINAL,
        "the replication factor is below 1 or above the number of brokers",
    )
    INVALID_REPLICA_ASSIGNMENT = 39, _FINAL, "the replica assignment is not allowed"
    INVALID_CONFIG = 40, _FINAL, "a configuration entry is unknown or its value not allowed"
    NOT_CONTROLLER = 41, _RETRY, "this broker is not the controller (any more)"
    INVALID_REQUEST = 42, _FINAL, "the request contradicts itself, or the broker cannot read it"
    UNSUPPORTED_FOR_MESSAGE_FORMAT = (
        43,
        _FINAL,
        "the records' format on the broker cannot do this; the topic's data is too old",
    )
    POLICY_VIOLATION = 44, _FINAL, "a policy of the cluster forbids it"
    OUT_OF_ORDER_SEQUENCE_NUMBER = (
        45,
        _FINAL,
        "a record came out of order; an earlier one of this producer is missing",
    )
    DUPLICATE_SEQUENCE_NUMBER = 46, _FINAL, "the broker has this batch already"
    INVALID_PRODUCER_EPOCH = 47, _FINAL, "a newer producer with the same transactional id has taken over"
    INVALID_TXN_STATE = 48, _FINAL, "the transaction is in a state in which this cannot be done"
    INVALID_PRODUCER_ID_MAPPING = 49, _FINAL, "the transactional id belongs to another producer id"
    INVALID_TRANSACTION_TIMEOUT = (
        50,
        _FINAL,
        "the transaction time-out is above the broker's transaction.max.timeout.ms",
    )
    CONCURRENT_TRANSACTIONS = 51, _RETRY, "the last transaction of this id is still being completed"
    TRANSACTION_COORDINATOR_FENCED = 52, _FINAL, "another transaction coordinator has taken over"
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, _FINAL, "no permission for the transactional id"
    SECURITY_DISABLED = 54, _FINAL, "the broker has security switched off"
    OPERATION_NOT_ATTEMPTED = (
        55,
        _FINAL,
        "not tried, because something before it failed; see the other errors",
    )
    KAFKA_STORAGE_ERROR = 56, _REFRESH, "the broker cannot read or write its disk"
    LOG_DIR_NOT_FOUND = 57, _FINAL, "the broker does not have this log directory"
    SASL_AUTHENTICATION_FAILED = (
        58,
        _FINAL,
        "the credentials are wrong; check user name, password and mechanism",
    )
    UNKNOWN_PRODUCER_ID = (
        59,
        _FINAL,
        "the broker has forgotten this producer; its records may have been deleted",
    )
    REASSIGNMENT_IN_PROGRESS = 60, _FINAL, "the partition is being moved to other brokers"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, _FINAL, "delegation tokens are not enabled on this listener"
    DELEGATION_TOKEN_NOT_FOUND = 62, _FINAL, "no such delegation token"
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, _FINAL, "the delegation token belongs to somebody else"
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (
        64,
        _FINAL,
        "delegation tokens need a connection that has authenticated itself otherwise",
    )
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, _FINAL, "no permission for the delegation token"
    DELEGATION_TOKEN_EXPIRED = 66, _FINAL, "the delegation token has expired"
    INVALID_PRINCIPAL_TYPE = 67, _FINAL, "this type of principal is not supported"
    NON_EMPTY_GROUP = 68, _FINAL, "the group still has members; stop them first"
    GROUP_ID_NOT_FOUND = 69, _FINAL, "no such group"
    FETCH_SESSION_ID_NOT_FOUND = (
        70,
        _RETRY,
        "the broker has dropped the fetch session; the next fetch opens another",
    )
    INVALID_FETCH_SESSION_EPOCH = 71, _RETRY, "the fetch session is out of step; the next fetch opens another"
    LISTENER_NOT_FOUND = (
        72,
        _REFRESH,
        "the leader does not have the listener that this connection uses",
    )
    TOPIC_DELETION_DISABLED = 73, _FINAL, "topics cannot be deleted: delete.topic.enable is off"
    FENCED_LEADER_EPOCH = (
        74,
        _REFRESH,
        "the leader epoch is older than the broker's; fresh metadata is needed",
    )
    UNKNOWN_LEADER_EPOCH = (
        75,
        _RETRY,
        "the leader epoch is newer than the broker's, which is still catching up",
    )
    UNSUPPORTED_COMPRESSION_TYPE = (
        76,
        _FINAL,
        "the broker does not support this compression; choose another compression_type",
    )
    STALE_BROKER_EPOCH = 77, _FINAL, "the broker has registered again in the meantime"
    OFFSET_NOT_AVAILABLE = 78, _RETRY, "the new leader does not know its high watermark yet"
    MEMBER_ID_REQUIRED = 79, _FINAL, "the member has been given an id and must join again with it"
    PREFERRED_LEADER_NOT_AVAILABLE = 80, _REFRESH, "the preferred leader is not in sync"
    GROUP_MAX_SIZE_REACHED = 81, _FINAL, "the group has as many members as group.max.size allows"
    FENCED_INSTANCE_ID = 82, _FINAL, "another member with the same group_instance_id has taken over"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, _REFRESH, "no replica may become the leader"
    ELECTION_NOT_NEEDED = 84, _REFRESH, "the partition has its preferred leader already"
    NO_REASSIGNMENT_IN_PROGRESS = 85, _FINAL, "the partition is not being moved"
    GROUP_SUBSCRIBED_TO_TOPIC = 86, _FINAL, "a group with members is subscribed to the topic"
    INVALID_RECORD = 87, _FINAL, "the broker rejected a record"
    UNSTABLE_OFFSET_COMMIT = 88, _RETRY, "a transaction that commits these offsets is still open"
    THROTTLING_QUOTA_EXCEEDED = 89, _RETRY, "a quota has been used up; slow down"
    PRODUCER_FENCED = 90, _FINAL, "a newer producer with the same transactional id has taken over"
    RESOURCE_NOT_FOUND = 91, _FINAL, "no such resource"
    DUPLICATE_RESOURCE = 92, _FINAL, "the resource is named twice, or exists already"
    UNACCEPTABLE_CREDENTIAL = 93, _FINAL, "the credential is not allowed"
    INCONSISTENT_VOTER_SET = 94, _FINAL, "the voters named are not those of the quorum"
    INVALID_UPDATE_VERSION = 95, _FINAL, "the feature version is not allowed"
    FEATURE_UPDATE_FAILED = 96, _FINAL, "the features could not be changed; the broker's log says more"
    PRINCIPAL_DESERIALIZATION_FAILURE = (
        97,
        _FINAL,
        "the broker could not read the principal of a forwarded request",
    )
    SNAPSHOT_NOT_FOUND = 98, _FINAL, "no such snapshot"
    POSITION_OUT_OF_RANGE = 99, _FINAL, "the position is outside the snapshot"
    UNKNOWN_TOPIC_ID = (
        100,
        _REFRESH,
        "the topic id is not known here; the topic may have been deleted or created again",
    )
    DUPLICATE_BROKER_REGISTRATION = 101, _FINAL, "a broker with this id is running already"
    BROKER_ID_NOT_REGISTERED = 102, _FINAL, "no broker has registered with this id"
    INCONSISTENT_TOPIC_ID = 103, _REFRESH, "the topic id is not that of the log; the topic was created again"
    INCONSISTENT_CLUSTER_ID = (
        104,
        _FINAL,
        "the cluster id is not this cluster's; the address may belong to another one",
    )
    TRANSACTIONAL_ID_NOT_FOUND = 105, _FINAL, "no such transactional id"
    FETCH_SESSION_TOPIC_ID_ERROR = (
        106,
        _RETRY,
        "the fetch session began without topic ids, or with them; open another",
    )
    INELIGIBLE_REPLICA = 107, _FINAL, "the replica may not join the in-sync set"
    NEW_LEADER_ELECTED = 108, _FINAL, "another leader was elected because of this change"
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, _FINAL, "the offset is only in tiered storage"
    FENCED_MEMBER_EPOCH = 110, _FINAL, "the member's epoch is not the group's; it must join again"
    UNRELEASED_INSTANCE_ID = 111, _FINAL, "another member with this group_instance_id has not left yet"
    UNSUPPORTED_ASSIGNOR = 112, _FINAL, "the broker does not know this assignor"
    STALE_MEMBER_EPOCH = (
        113,
        _FINAL,
        "the member's epoch is out of date; it learns the new one by its next heartbeat",
    )
    MISMATCHED_ENDPOINT_TYPE = (
        114,
        _FINAL,
        "this address is that of a controller and not of a broker, or the other way round",
    )
    UNSUPPORTED_ENDPOINT_TYPE = 115, _FINAL, "this kind of endpoint is not known"
    UNKNOWN_CONTROLLER_ID = 116, _FINAL, "the controller id is not known"
    UNKNOWN_SUBSCRIPTION_ID = 117, _FINAL, "the telemetry subscription is out of date"
    TELEMETRY_TOO_LARGE = 118, _FINAL, "the telemetry is larger than the broker accepts"
    INVALID_REGISTRATION = 119, _FINAL, "the broker's registration is not allowed"
    TRANSACTION_ABORTABLE = 120, _FINAL, "the transaction can only be aborted now"
    INVALID_RECORD_STATE = 121, _FINAL, "the record is not in a state that allows this acknowledgement"
    SHARE_SESSION_NOT_FOUND = 122, _RETRY, "the broker has dropped the share session; open another"
    INVALID_SHARE_SESSION_EPOCH = 123, _RETRY, "the share session is out of step; open another"
    FENCED_STATE_EPOCH = 124, _FINAL, "the state epoch is older than the one stored"
    INVALID_VOTER_KEY = 125, _FINAL, "the voter key is not that of the controller"
    DUPLICATE_VOTER = 126, _FINAL, "the controller is a voter already"
    VOTER_NOT_FOUND = 127, _FINAL, "no such voter"
    INVALID_REGULAR_EXPRESSION = (
        128,
        _FINAL,
        "the regular expression is not allowed (the broker's syntax is RE2/J)",
    )
    REBOOTSTRAP_REQUIRED = (
        129,
        _FINAL,
        "the metadata of the client is too old; it must connect to bootstrap_servers again",
    )
    STREAMS_INVALID_TOPOLOGY = 130, _FINAL, "the topology of the streams application is not allowed"
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, _FINAL, "the topology's epoch is not allowed"
    STREAMS_TOPOLOGY_FENCED = 132, _FINAL, "the topology is older than the group's"
    SHARE_SESSION_LIMIT_REACHED = 133, _RETRY, "the broker cannot open another share session"


_FACTS: Final = {int(code): code.facts for code in ErrorCode}


def error_facts(code: int) -> ErrorFacts:
    """Return the properties of the error code *code*.

    A code that this client does not know gets the name ``CODE_<code>`` and is not retriable.
    """
    return _FACTS.get(code) or ErrorFacts(
        code, f"CODE_{code}", False, False, "this client does not know this error code"
    )
