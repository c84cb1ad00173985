"""Dialogues with one broker about the committed offsets of a group, and about its group coordinator."""

from collections.abc import Collection, Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from pyklient.consumer.commit.offset_storages.offset_requests import commit_request, not_in_zookeeper
from pyklient.consumer.owned_partitions import NOBODY
from pyklient.error_codes import ErrorCode
from pyklient.errors import CommitError, KafkaError, UnsupportedVersionError, broker_error
from pyklient.net.dialogue import ANY, Ask, Dialogue
from pyklient.net.lookups.offset_commit_request import commit_errors, unconfirmed
from pyklient.net.lookups.offset_fetch import ONE_GROUP, fetched_offsets, offset_fetch_request
from pyklient.net.metadata import Node
from pyklient.protocol.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["Storage", "commit_offsets", "fetch_offsets", "find_coordinator"]

Storage: TypeAlias = Literal["kafka", "zookeeper"]
"""The place where a broker stores committed offsets: Kafka or ZooKeeper. The version of the request
determines it."""


class _Versions(NamedTuple):
    """The first and the last version of a request that may be sent."""

    first: int
    last: int


_IN_ZOOKEEPER: Final = _Versions(0, 0)
_COMMIT_VERSIONS: Final = _Versions(1, 9)
"""The versions of OffsetCommit that store offsets in Kafka and name topics by name."""
_FETCH_VERSIONS: Final = _Versions(1, ONE_GROUP)
"""The versions of OffsetFetch that read offsets from Kafka and ask for a single group."""
_ONE_KEY: Final = 3
"""The last version of FindCoordinator that asks for a single group."""


def commit_offsets(
    group_id: str, positions: Mapping[TopicPartition, OffsetAndMetadata], storage: Storage
) -> Dialogue[None]:
    """Commit *positions* for a group without members.

    Raises CommitError if the broker rejects a partition, or leaves it out of its response. The CommitError
    has the error of each such partition. Raises UnsupportedVersionError if *storage* is ``zookeeper`` and the
    broker does not use ZooKeeper.
    """
    request = commit_request(group_id, NOBODY, positions)
    response = yield from _ask(request, storage, _COMMIT_VERSIONS)
    codes = commit_errors(response)
    if ErrorCode.UNSUPPORTED_VERSION in codes.values() and storage == "zookeeper":
        raise _without_zookeeper(f"cannot commit offsets of group {group_id}")
    errors: dict[TopicPartition, KafkaError] = {
        where: broker_error(code, f"cannot commit the offset of {where} for group {group_id}")
        for where, code in codes.items()
    }
    errors.update(unconfirmed(group_id, response, positions))
    if errors:
        raise CommitError("; ".join(map(str, errors.values())), errors)


def fetch_offsets(
    group_id: str, partitions: Collection[TopicPartition], storage: Storage
) -> Dialogue[dict[TopicPartition, OffsetAndMetadata | None]]:
    """Return the committed offset of each of *partitions*, or None for a partition without one.

    Raises BrokerError, ProtocolError if the response leaves out one of *partitions*, and
    UnsupportedVersionError if the broker does not use ZooKeeper and *storage* is ``zookeeper``.
    """
    response = yield from _ask(offset_fetch_request(group_id, partitions), storage, _FETCH_VERSIONS)
    found = fetched_offsets(response)
    what = f"cannot fetch the offsets of group {group_id}"
    if found.first_error == ErrorCode.UNSUPPORTED_VERSION and storage == "zookeeper":
        raise _without_zookeeper(what)
    if found.first_error:
        raise broker_error(found.first_error, what)
    return found.of(partitions, group_id)


def find_coordinator(group_id: str) -> Dialogue[Node]:
    """Return the node id and the address of the coordinator of a group. Raises BrokerError. The error is
    retriable as long as the group has no coordinator yet."""
    request = FindCoordinatorRequest(key=group_id)
    response: FindCoordinatorResponse = yield Ask(ANY, request, max_version=_ONE_KEY)
    if response.error_code:
        raise broker_error(response.error_code, f"cannot find the group coordinator of {group_id!r}")
    return Node(response.node_id, response.host, response.port)


def _ask(
    request: OffsetCommitRequest | OffsetFetchRequest, storage: Storage, in_kafka: _Versions
) -> Dialogue[Any]:
    versions = in_kafka if storage == "kafka" else _IN_ZOOKEEPER
    try:
        return (yield Ask(ANY, request, max_version=versions.last, min_version=versions.first))
    except UnsupportedVersionError as error:
        if error.retriable or storage == "kafka":
            raise
        raise not_in_zookeeper(str(error)) from None


def _without_zookeeper(what: str) -> UnsupportedVersionError:
    return not_in_zookeeper(f"{what} in ZooKeeper: the brokers do not use ZooKeeper")
