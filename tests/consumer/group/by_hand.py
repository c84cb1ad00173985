"""A Membership that a test controls directly, and an OffsetStorage that is a dictionary."""

import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future

from pyklient.consumer.commit.offset_storages.offset_storage import Rejection, Rejections
from pyklient.consumer.group.assignment_handler import AssignmentHandler
from pyklient.consumer.group.subscription import Subscription
from pyklient.consumer.owned_partitions import NOBODY, MemberIdentity
from pyklient.errors import KafkaError
from pyklient.net.network_client import NetworkClient
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["DictionaryStore", "MembershipByHand"]


class MembershipByHand:
    """A Membership that owns the partitions given to :meth:`assign` and :meth:`revoke`, and at first all
    partitions of its topics. It has no thread: tests call it in their own thread."""

    def __init__(self, client: NetworkClient) -> None:
        self.identity = NOBODY
        self.handler: AssignmentHandler
        self._client = client
        self._owned: set[TopicPartition] = set()

    def start(self, subscription: Subscription, handler: AssignmentHandler) -> None:
        self.handler = handler
        handler.watch(subscription.asks_for)
        handler.revoked((), 0.0)
        self.assign(*sorted(self._partitions(subscription)))

    def subscribe(self, subscription: Subscription) -> None:
        wanted = self._partitions(subscription)
        self.revoke(*self._owned - wanted)
        self.assign(*wanted - self._owned)

    def assign(self, *partitions: TopicPartition) -> None:
        self._owned.update(partitions)
        self.handler.assigned(partitions, self.identity)

    def revoke(self, *partitions: TopicPartition, patience: float = 0.0) -> None:
        self.handler.revoked(partitions, patience)
        self._owned.difference_update(partitions)

    def lose(self, *partitions: TopicPartition) -> None:
        self.handler.lost(partitions)
        self.revoke(*partitions)

    def runs_here(self) -> bool:
        return False

    def leave(self, timeout: float) -> None:
        self.revoke(*self._owned, patience=timeout)
        self.handler.left()
        self.handler.ended()

    def abandon(self, then: Callable[[], None]) -> bool:
        return False

    def join(self, timeout: float) -> None: ...

    def _partitions(self, subscription: Subscription) -> set[TopicPartition]:
        metadata = self._client.refresh_metadata(subscription.asks_for, 10.0)
        counts = {topic: metadata.partition_count(topic) for topic in subscription.topics(metadata)}
        return {TopicPartition(topic, number) for topic, count in counts.items() for number in range(count)}


class DictionaryStore:
    """An OffsetStorage that keeps positions in ``positions``. Commits under another generation than
    ``generation`` are outdated; None accepts any generation."""

    def __init__(
        self, positions: dict[TopicPartition, OffsetAndMetadata] | None = None, generation: int | None = None
    ) -> None:
        self.positions = {} if positions is None else positions
        self.generation = generation
        self._lock = threading.Lock()

    def fetch(
        self, partitions: Collection[TopicPartition], timeout: float
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        with self._lock:
            return {each: self.positions.get(each) for each in partitions}

    def commit(
        self,
        positions: Mapping[TopicPartition, OffsetAndMetadata],
        identity: MemberIdentity,
        timeout: float,
        *,
        once: bool = False,
    ) -> Rejections:
        with self._lock:
            if self.generation not in (None, identity.generation):
                return dict.fromkeys(positions, Rejection(KafkaError("an old generation"), outdated=True))
            self.positions.update(positions)
        return {}

    def commit_async(
        self, positions: Mapping[TopicPartition, OffsetAndMetadata], identity: MemberIdentity
    ) -> "Future[Rejections] | None":
        done: Future[Rejections] = Future()
        done.set_result(self.commit(positions, identity, 0.0))
        return done

    def unreachable(self) -> KafkaError | None:
        return None

    def stop_retrying(self) -> None: ...
