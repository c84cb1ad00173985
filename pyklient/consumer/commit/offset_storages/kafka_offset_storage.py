"""The offset storage that commits offsets to the group coordinator, and fetches offsets from the group
coordinator."""

import logging
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Final, NamedTuple, Self

from pyklient.config import ConsumerConfig
from pyklient.consumer.commit.offset_storages.offset_requests import commit_request
from pyklient.consumer.commit.offset_storages.offset_storage import Rejection, Rejections, commit_here
from pyklient.consumer.group_coordinator_client import GroupCoordinatorClient
from pyklient.consumer.owned_partitions import NOBODY, MemberIdentity
from pyklient.error_codes import ErrorCode
from pyklient.errors import KafkaError, KafkaTimeoutError, UnsupportedVersionError, broker_error
from pyklient.net.connection_pool import Purpose
from pyklient.net.dialogue import Dialogue, retried
from pyklient.net.dialogue_player import DialoguePlayer
from pyklient.net.lookups.offset_commit_request import commit_errors, unconfirmed
from pyklient.net.lookups.offset_fetch import ONE_GROUP, FetchedOffsets, fetched_offsets, offset_fetch_request
from pyklient.net.network_client import NetworkClient
from pyklient.protocol.messages import (
    OffsetCommitRequest,
    OffsetCommitResponse,
)
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["CommitRetries", "KafkaOffsetStorage", "commit_offsets", "fetch_offsets"]

log = logging.getLogger("pyklient.consumer")

_COMMIT_VERSION = 9
"""The newest version of OffsetCommit that names topics by name. Later versions have topic ids only."""
_WITH_RETENTION = (2, 4)
"""The first and the last version of OffsetCommit with a retention time."""
_MOVED = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
_PASSING = (*_MOVED, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.REQUEST_TIMED_OUT)
_OUTDATED = (
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
)


class CommitRetries(NamedTuple):
    """The limits of the attempts to commit offsets. If ``tries`` is None, only the time-out of the commit
    limits the attempts. If another field is None, the client's usual back-off or time-out applies."""

    tries: int | None = None
    pause: float | None = None
    """The number of seconds between two attempts."""
    answer_within: float | None = None
    """The number of seconds for which one attempt waits for the response."""

    @classmethod
    def of(cls, config: ConsumerConfig) -> Self:
        """Return the limits that the options of *config* set."""
        retries, timeout_ms = config.offsets_commit_max_retries, config.offsets_channel_socket_timeout_ms
        pause_ms = config.offsets_channel_backoff_ms
        return cls(
            None if retries is None else retries + 1,
            None if pause_ms is None else pause_ms / 1000,
            None if timeout_ms is None else timeout_ms / 1000,
        )


_UNTIL_TIMEOUT: Final = CommitRetries()


class KafkaOffsetStorage:
    """An OffsetStorage that keeps positions at the group coordinator *coordinator*."""

    def __init__(
        self, client: NetworkClient, config: ConsumerConfig, coordinator: GroupCoordinatorClient
    ) -> None:
        self._client = client
        self._coordinator = coordinator
        # An automatic commit runs on the group's thread, where the next heartbeat must not be late.
        self._connect_timeout = config.heartbeat_interval_ms / 1000
        # The group coordinator knows no members of a group that ZooKeeper coordinates.
        self._has_members = config.coordination == "kafka"
        self._retention_ms = config.offsets_retention_ms
        self._retries = CommitRetries.of(config)
        self._dialogues = DialoguePlayer(client)

    def fetch(
        self, partitions: Collection[TopicPartition], timeout: float
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offset of each of *partitions*, or None for a partition without one.

        If an open transaction has offsets for one of *partitions*, wait until the transaction ends (KIP-447).
        Otherwise a member could begin at the offsets before the transaction, and read messages again that the
        transaction has processed.
        """
        return self._dialogues.play(fetch_offsets(self._coordinator, partitions), timeout)

    def commit(
        self,
        positions: Mapping[TopicPartition, OffsetAndMetadata],
        identity: MemberIdentity,
        timeout: float,
        *,
        once: bool = False,
    ) -> Rejections:
        """Commit *positions* as the member with *identity*. Return the positions that the coordinator has
        rejected.

        Raises KafkaTimeoutError after *timeout* seconds. If *once* is true, this method raises the first
        failure, and does not try again.
        """
        try:
            return self._dialogues.play(
                commit_offsets(
                    self._coordinator,
                    self._known(identity),
                    positions,
                    self._retention_ms,
                    self._retries._replace(tries=1) if once else self._retries,
                ),
                timeout,
            )
        except KafkaTimeoutError as error:
            raise KafkaTimeoutError(
                f"cannot commit offsets of group {self._coordinator.group_id}: {error}"
            ) from error

    def commit_async(
        self, positions: Mapping[TopicPartition, OffsetAndMetadata], identity: MemberIdentity
    ) -> "Future[Rejections] | None":
        """Commit *positions* without waiting for the response. Return a future that gets the rejected
        positions, or None if the positions cannot be sent now.

        This method does wait in two cases: a connection has to be opened, or the client is not a member of
        the group. A client that is not a member sends no heartbeats, so it learns only from the response that
        the coordinator has moved.
        """
        if self._has_members and identity == NOBODY:
            return commit_here(self, positions, identity)
        node_id = self._coordinator.node_id
        if node_id is None:
            return None
        rejections: Future[Rejections] = Future()
        group_id = self._coordinator.group_id

        def answered(future: "Future[OffsetCommitResponse]") -> None:
            error = future.exception()
            if error is None:
                rejections.set_result(_rejections(group_id, future.result(), positions))
            else:
                rejections.set_exception(error)

        try:
            connection = self._client.connection(node_id, Purpose.OTHER, self._connect_timeout)
            request = commit_request(group_id, self._known(identity), positions, self._retention_ms)
            oldest, newest = _versions(self._retention_ms)
            connection.version_of(OffsetCommitRequest, newest, oldest)
            connection.send(request, max_version=newest).add_done_callback(answered)
        except KafkaError as error:
            log.info("group %s: offsets cannot be committed yet: %s", group_id, error)
            return None
        return rejections

    def unreachable(self) -> KafkaError | None:
        """Return the reason why no broker can be reached at the moment. Return None if no reason is known."""
        return self._client.unreachable()

    def stop_retrying(self) -> None:
        """From now on, do not try again if no broker can be reached. The client calls this method when it
        closes."""
        self._dialogues.closing = True

    def _known(self, identity: MemberIdentity) -> MemberIdentity:
        """Return *identity*. Return NOBODY, the identity of a client outside the group, if the members
        coordinate themselves through ZooKeeper, because the group coordinator does not know such members."""
        return identity if self._has_members else NOBODY


def commit_offsets(
    coordinator: GroupCoordinatorClient,
    identity: MemberIdentity,
    positions: Mapping[TopicPartition, OffsetAndMetadata],
    retention_ms: int | None = None,
    retries: CommitRetries = _UNTIL_TIMEOUT,
) -> Dialogue[Rejections]:
    """Commit *positions* to the group coordinator as the member with *identity*, with as many attempts as
    *retries* allows. If *retention_ms* is not None, the coordinator keeps the positions for this number of
    milliseconds.

    Return the positions that the coordinator has rejected with an error that a retry cannot mend.
    """
    rejections: dict[TopicPartition, Rejection] = {}
    left = dict(positions)
    if left:
        attempt = partial(
            _commit_left, coordinator, identity, left, rejections, retention_ms, retries.answer_within
        )
        yield from retried(attempt, tries=retries.tries, pause=retries.pause)
    return rejections


def _commit_left(
    coordinator: GroupCoordinatorClient,
    identity: MemberIdentity,
    left: dict[TopicPartition, OffsetAndMetadata],
    rejections: dict[TopicPartition, Rejection],
    retention_ms: int | None,
    answer_within: float | None,
) -> Dialogue[None]:
    """Commit the positions in *left* as the member with *identity*. Then remove from *left* the positions
    that were committed or rejected. *answer_within* is the number of seconds to wait for the response; None
    means the client's usual time-out.

    Add the rejected positions to *rejections*. If a position has failed because of a temporary error, it
    stays in *left*, and this error is raised. The caller can then call this function again.
    """
    request = commit_request(coordinator.group_id, identity, left, retention_ms)
    oldest, newest = _versions(retention_ms)
    response = yield from coordinator.ask(
        request, timeout=answer_within, purpose=Purpose.OTHER, max_version=newest, min_version=oldest
    )
    codes = commit_errors(response)
    again = [each for each, code in codes.items() if code in _PASSING and each in left]
    rejected = _rejections(coordinator.group_id, response, left)
    rejections.update((each, why) for each, why in rejected.items() if each not in again)
    for each in set(left) - set(again):
        del left[each]
    if not set(_MOVED).isdisjoint(codes.values()):
        coordinator.forget()
    if again:
        raise broker_error(codes[again[0]], f"cannot commit offsets of group {coordinator.group_id}")


def fetch_offsets(
    coordinator: GroupCoordinatorClient, partitions: Collection[TopicPartition]
) -> Dialogue[dict[TopicPartition, OffsetAndMetadata | None]]:
    """Return the committed offset of each of *partitions*, or None for a partition without one.

    If an open transaction has offsets for one of *partitions*, wait until the transaction ends (KIP-447).
    """
    if not partitions:
        return {}
    found = yield from retried(partial(_fetch, coordinator, partitions))
    return found.of(partitions, coordinator.group_id)


def _fetch(
    coordinator: GroupCoordinatorClient, partitions: Collection[TopicPartition]
) -> Dialogue[FetchedOffsets]:
    """Ask the coordinator once for the committed offsets of *partitions*, and return its answer. Raise the
    error in its response."""
    request = offset_fetch_request(coordinator.group_id, partitions, stable=True)
    try:
        response = yield from coordinator.ask(request, max_version=ONE_GROUP)
    except UnsupportedVersionError as error:
        if error.retriable:
            raise
        request.require_stable = False  # brokers before Kafka 2.5 do not tell that a transaction has offsets
        response = yield from coordinator.ask(request, max_version=ONE_GROUP)
    found = fetched_offsets(response)
    if found.first_error in _MOVED:
        coordinator.forget()
    if found.first_error:
        raise broker_error(found.first_error, f"cannot fetch the offsets of group {coordinator.group_id}")
    return found


def _rejections(
    group_id: str, response: OffsetCommitResponse, positions: Iterable[TopicPartition]
) -> dict[TopicPartition, Rejection]:
    """Return a Rejection, which has the error, for each partition in *positions* that was not committed,
    because the response has an error for it or leaves it out."""
    return {
        each: Rejection(broker_error(code), outdated=code in _OUTDATED)
        for each, code in commit_errors(response).items()
    } | {each: Rejection(error) for each, error in unconfirmed(group_id, response, positions).items()}


def _versions(retention_ms: int | None) -> tuple[int, int]:
    """Return the first and the last version of OffsetCommit that can be used with *retention_ms*."""
    return (0, _COMMIT_VERSION) if retention_ms is None else _WITH_RETENTION
