"""The offset storage of a member of a ZooKeeper group. It commits only if the member's session with
ZooKeeper has not ended since the member got its partitions."""

import threading
import time
from collections.abc import Collection, Mapping
from concurrent.futures import Future

from pyklient.consumer.commit.offset_storages.offset_storage import (
    AUTOMATIC_TIMEOUT,
    OffsetStorage,
    Rejection,
    Rejections,
)
from pyklient.consumer.group.zookeeper.zookeeper_member import ZooKeeperMember
from pyklient.consumer.owned_partitions import MemberIdentity
from pyklient.errors import KafkaError, KafkaTimeoutError, RegistryConnectionError, SessionExpiredError
from pyklient.registry import paths
from pyklient.registry.requests import Read
from pyklient.registry.zookeeper import ZooKeeper
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["FencedOffsetStorage"]

_PAUSE = 0.1
"""The seconds between two attempts to commit while the connection to ZooKeeper fails."""


class FencedOffsetStorage:
    """An OffsetStorage that stores positions in *store* only while *member* owns its partitions.

    Before each commit, this storage sends one request to ZooKeeper. The answer shows whether the session in
    which the member became the owner still exists. If that session is over, other members may own the
    partitions already and may have committed newer offsets, so the commit is rejected. Without an answer,
    nothing is committed. Scala's consumer does not check this, and may overwrite a newer offset.
    """

    def __init__(self, store: OffsetStorage, registry: ZooKeeper, member: ZooKeeperMember) -> None:
        self.store = store
        """The offset storage that keeps the positions."""
        self._registry = registry
        self._member = member
        self._closing = threading.Event()

    def fetch(
        self, partitions: Collection[TopicPartition], timeout: float
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the position of each of *partitions*, or None for a partition without one."""
        return self.store.fetch(partitions, timeout)

    def commit(
        self,
        positions: Mapping[TopicPartition, OffsetAndMetadata],
        identity: MemberIdentity,
        timeout: float,
        *,
        once: bool = False,
    ) -> Rejections:
        """Store *positions*. Reject all of them if the session in which the member got its partitions is
        over.

        If the connection to ZooKeeper fails, try again, unless *once* is true. Raise KafkaTimeoutError with
        the last failure after *timeout* seconds.
        """
        deadline = time.monotonic() + timeout
        while True:
            try:
                if self._closing.is_set() and (error := self.unreachable()) is not None:
                    raise error
                if not self._owns(identity, deadline - time.monotonic()):
                    return self._rejections(positions)
                return self.store.commit(positions, identity, deadline - time.monotonic(), once=once)
            except (RegistryConnectionError, SessionExpiredError) as failure:
                if self._closing.is_set() or once:
                    raise
                if time.monotonic() + _PAUSE >= deadline:
                    raise KafkaTimeoutError(
                        f"cannot commit offsets of group {self._member.group_id} within {timeout:.3g} s: "
                        f"{failure}"
                    ) from failure
            self._closing.wait(_PAUSE)

    def commit_async(
        self, positions: Mapping[TopicPartition, OffsetAndMetadata], identity: MemberIdentity
    ) -> "Future[Rejections] | None":
        """Store *positions*. Reject all of them if the session in which the member got its partitions is
        over. Return a future that gets the rejected positions, or None if the positions cannot be sent now.

        The call waits for ZooKeeper for at most two seconds.
        """
        if self.unreachable() is not None:
            return None
        rejections: Future[Rejections] = Future()
        try:
            if self._owns(identity, AUTOMATIC_TIMEOUT):
                return self.store.commit_async(positions, identity)
            rejections.set_result(self._rejections(positions))
        except KafkaError as error:
            rejections.set_exception(error)
        return rejections

    def unreachable(self) -> KafkaError | None:
        """Return the reason why ZooKeeper or the storage cannot be reached at the moment. Return None if no
        reason is known."""
        return self._registry.unreachable() or self.store.unreachable()

    def stop_retrying(self) -> None:
        """From now on, do not try again if ZooKeeper or the storage cannot be reached. The client calls this
        method when it closes."""
        self._closing.set()
        self.store.stop_retrying()

    def _owns(self, identity: MemberIdentity, timeout: float) -> bool:
        """Return True if the session in which the member got the partitions of *identity* still exists.

        Raise an error if ZooKeeper does not answer within *timeout* seconds.
        """
        member = self._member
        session = member.session_id
        self._registry.ask(Read(paths.consumer(member.group_id, member.consumer_id)), timeout)
        now = self._registry.session_id
        if now is None:
            raise self._registry.connection_lost()
        return now == session and identity == member.identity

    def _rejections(self, positions: Mapping[TopicPartition, OffsetAndMetadata]) -> Rejections:
        why = SessionExpiredError(
            f"this member has lost the partition, because its session with {self._registry} has ended, and "
            "another member may own the partition now; reading resumes at the committed offset"
        )
        return dict.fromkeys(positions, Rejection(why, outdated=True))
