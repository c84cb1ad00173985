"""An offset storage that keeps offsets in ZooKeeper by requests to a broker, for clients that cannot reach
ZooKeeper."""

from collections.abc import Collection, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, Final

from pyklient.consumer.commit.offset_storages.offset_requests import commit_request, not_in_zookeeper
from pyklient.consumer.commit.offset_storages.offset_storage import Rejection, Rejections, commit_here
from pyklient.consumer.owned_partitions import NOBODY, MemberIdentity
from pyklient.error_codes import ErrorCode, error_facts
from pyklient.errors import KafkaError, KafkaTimeoutError, UnsupportedVersionError, broker_error
from pyklient.net.dialogue import ANY, Ask, Dialogue, retried
from pyklient.net.dialogue_player import DialoguePlayer
from pyklient.net.lookups.offset_commit_request import commit_errors, unconfirmed
from pyklient.net.lookups.offset_fetch import FetchedOffsets, fetched_offsets, offset_fetch_request
from pyklient.net.network_client import NetworkClient
from pyklient.protocol.messages import OffsetCommitRequest, OffsetFetchRequest
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["BrokerZooKeeperOffsetStorage"]

_IN_ZOOKEEPER: Final = 0
"""The version of OffsetCommit and OffsetFetch with which brokers keep the offsets in ZooKeeper."""


class BrokerZooKeeperOffsetStorage:
    """An OffsetStorage that keeps the offsets of the group *group_id* in ZooKeeper, through any broker.

    Brokers of Kafka 0.8.1 to 3.9 that use ZooKeeper accept such offsets. They return no leader epochs.
    """

    def __init__(self, client: NetworkClient, group_id: str) -> None:
        self._client = client
        self._group_id = group_id
        self._dialogues = DialoguePlayer(client)

    def fetch(
        self, partitions: Collection[TopicPartition], timeout: float
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offset of each of *partitions*, or None for a partition without one.

        Raises UnsupportedVersionError if the broker cannot keep offsets in ZooKeeper.
        """
        if not partitions:
            return {}
        found = self._dialogues.play(retried(partial(_fetch, self._group_id, partitions)), timeout)
        return found.of(partitions, self._group_id)

    def commit(
        self,
        positions: Mapping[TopicPartition, OffsetAndMetadata],
        identity: MemberIdentity,
        timeout: float,
        *,
        once: bool = False,
    ) -> Rejections:
        """Write *positions*. Return the positions that the broker has rejected.

        ZooKeeper does not know which member owns the partitions, so *identity* is not used. Raises
        KafkaTimeoutError after *timeout* seconds. If *once* is true, this method raises the first failure,
        and does not try again.
        """
        rejections: dict[TopicPartition, Rejection] = {}
        left = dict(positions)
        try:
            if left:
                attempt = partial(_commit, self._group_id, left, rejections)
                self._dialogues.play(retried(attempt, tries=1 if once else None), timeout)
        except KafkaTimeoutError as error:
            raise KafkaTimeoutError(
                f"cannot commit offsets of group {self._group_id} to ZooKeeper: {error}"
            ) from error
        return rejections

    def commit_async(
        self, positions: Mapping[TopicPartition, OffsetAndMetadata], identity: MemberIdentity
    ) -> "Future[Rejections] | None":
        """Write *positions*, wait for the response for at most two seconds, and return a future that is done.
        Without this wait, a later commit through another broker might be stored before this commit. Return
        None if no broker can be reached."""
        if self.unreachable() is not None:
            return None
        return commit_here(self, positions, identity)

    def unreachable(self) -> KafkaError | None:
        """Return the reason why no broker can be reached at the moment. Return None if no reason is known."""
        return self._client.unreachable()

    def stop_retrying(self) -> None:
        """From now on, do not try again if no broker can be reached. The client calls this method when it
        closes."""
        self._dialogues.closing = True


def _fetch(group_id: str, partitions: Collection[TopicPartition]) -> Dialogue[FetchedOffsets]:
    found = fetched_offsets((yield from _ask(offset_fetch_request(group_id, partitions))))
    if found.first_error:
        raise _error(found.first_error, f"cannot fetch the offsets of group {group_id}")
    return found


def _commit(
    group_id: str,
    left: dict[TopicPartition, OffsetAndMetadata],
    rejections: dict[TopicPartition, Rejection],
) -> Dialogue[None]:
    """Write the positions in *left*. Then remove from *left* the positions that were stored or rejected.

    Add the rejected positions to *rejections*. If a position has failed because of a temporary error, it
    stays in *left*, and this error is raised. The caller can then call this function again.
    """
    response = yield from _ask(commit_request(group_id, NOBODY, left))
    codes = commit_errors(response)
    again = {each: code for each, code in codes.items() if error_facts(code).retriable and code != _UNKNOWN}
    for each, code in codes.items():
        if each not in again:
            rejections[each] = Rejection(_error(code, f"cannot commit offsets of group {group_id}"))
    rejections.update(
        (each, Rejection(error)) for each, error in unconfirmed(group_id, response, left).items()
    )
    for each in set(left) - again.keys():
        del left[each]
    if again:
        raise broker_error(next(iter(again.values())), f"cannot commit offsets of group {group_id}")


_UNKNOWN: Final = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _ask(request: OffsetCommitRequest | OffsetFetchRequest) -> Dialogue[Any]:
    try:
        return (yield Ask(ANY, request, max_version=_IN_ZOOKEEPER))
    except UnsupportedVersionError as error:
        raise not_in_zookeeper(str(error)) from None


def _error(code: int, context: str) -> KafkaError:
    if code == ErrorCode.UNSUPPORTED_VERSION:
        return not_in_zookeeper(f"{context}: the brokers do not use ZooKeeper")
    return broker_error(code, context)
