"""What the brokers say of the topics to read: their partitions, and where in them a query begins and ends."""

from collections.abc import Collection, Mapping
from typing import Self, TypeVar

from pyklient.config import ConsumerConfig
from pyklient.consumer.read import topic_partitions
from pyklient.model import TopicPartition
from pyklient.net.client import NetworkClient
from pyklient.net.conversation import Conversation, list_offsets
from pyklient.spark.option_values import LATEST

_T = TypeVar("_T")

__all__ = ["Brokers", "resolve"]


def resolve(
    partitions: Collection[TopicPartition], bound: int | Mapping[TopicPartition, int], isolation_level: int
) -> Conversation[dict[TopicPartition, int]]:
    """The offset of *bound* in each of *partitions*."""
    wanted = bound if isinstance(bound, Mapping) else dict.fromkeys(partitions, bound)
    ends = {each: at for each, at in wanted.items() if at < 0}
    found = {each: at for each, at in wanted.items() if at >= 0}
    if ends:
        listed = yield from list_offsets(ends, isolation_level if LATEST in ends.values() else 0)
        found.update((each, at.offset) for each, at in listed.items())
    return found


class Brokers:
    """Asks them, over connections that are kept until :meth:`close`."""

    def __init__(self, config: ConsumerConfig) -> None:
        self._config = config
        self._client = NetworkClient(config)

    def partitions(self, topics: Collection[str]) -> list[TopicPartition]:
        """All partitions of *topics*. Raises BrokerError for a topic that does not exist."""
        return self._play(topic_partitions(list(topics)))

    def offsets(
        self, partitions: Collection[TopicPartition], bound: int | Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """The offset of *bound* in each of *partitions*."""
        level = int(self._config.isolation_level == "read_committed")
        return self._play(resolve(partitions, bound, level))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _play(self, conversation: Conversation[_T]) -> _T:
        return self._client.play(conversation, self._config.default_api_timeout_ms / 1000)
