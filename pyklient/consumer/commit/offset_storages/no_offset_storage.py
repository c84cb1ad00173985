"""An offset storage that stores nothing, for a client without a group."""

from collections.abc import Collection, Mapping
from concurrent.futures import Future

from pyklient.consumer.commit.offset_storages.offset_storage import Rejections
from pyklient.consumer.owned_partitions import MemberIdentity
from pyklient.errors import ConfigurationError, KafkaError
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["NoOffsetStorage"]


class NoOffsetStorage:
    """An OffsetStorage that has no positions and stores none."""

    def fetch(
        self, partitions: Collection[TopicPartition], timeout: float
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return None for each of *partitions*, because this storage has no positions."""
        return dict.fromkeys(partitions)

    def commit(
        self,
        positions: Mapping[TopicPartition, OffsetAndMetadata],
        identity: MemberIdentity,
        timeout: float,
        *,
        once: bool = False,
    ) -> Rejections:
        """Raise ConfigurationError, because offsets can be committed only for a group."""
        raise ConfigurationError("offsets can be committed only for a group; set group_id")

    def commit_async(
        self, positions: Mapping[TopicPartition, OffsetAndMetadata], identity: MemberIdentity
    ) -> "Future[Rejections] | None":
        """Return None, because no positions can be sent to this storage."""
        return None

    def unreachable(self) -> KafkaError | None:
        """Return None, because this storage can always be reached."""
        return None

    def stop_retrying(self) -> None:
        """Do nothing, because this storage never tries again."""
