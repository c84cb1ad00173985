"""The requests that a program passes to a SimpleConsumer: fetches of one partition, and requests with several
fetches."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from pyklient import argument_checks
from pyklient.argument_checks import INT32_MAX, INT64_MAX
from pyklient.errors import ConfigurationError
from pyklient.protocol.messages import FetchRequest
from pyklient.topic_partition import TopicPartition

__all__ = [
    "FETCH_VERSION",
    "MOST_FETCHES",
    "FetchRequestBuilder",
    "PartitionFetch",
    "SimpleFetchRequest",
    "wire_request",
]

FETCH_VERSION: Final = 12
"""The newest version of Fetch that names topics by name. Later versions have topic ids only."""

MOST_FETCHES: Final = 32_767
"""The largest number of fetches in one call. Kafka 0.7 has the same limit."""

_MAX_BYTES: Final = 1_048_576


@dataclass(frozen=True, slots=True)
class PartitionFetch:
    """A fetch of one partition: from *offset* on, up to about *max_bytes*. Kafka 0.7 calls it FetchRequest,
    and Kafka 0.8 calls it PartitionFetchInfo."""

    topic: str
    partition: int
    offset: int
    max_bytes: int = _MAX_BYTES

    def __post_init__(self) -> None:
        argument_checks.text(self.topic, "topic")
        numbers = {
            "partition": argument_checks.whole(self.partition, "partition"),
            "offset": argument_checks.whole(
                self.offset, f"the offset of {self.where}", -INT64_MAX, INT64_MAX
            ),
            "max_bytes": argument_checks.whole(self.max_bytes, "max_bytes", low=1),
        }
        for name, number in numbers.items():
            object.__setattr__(self, name, number)  # whole numbers of other libraries become int
        if self.offset < 0:
            raise ConfigurationError(
                f"cannot fetch from {self.where}: offset {self.offset} is below 0; get_offsets_before() "
                "returns the first and the last offset"
            )

    @property
    def where(self) -> TopicPartition:
        """The partition to fetch from."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class SimpleFetchRequest:
    """A request for messages of several partitions of one broker. Kafka's SimpleConsumer calls it
    FetchRequest.

    The broker answers when it has *min_bytes* bytes, or after *max_wait_ms*. The whole response has about
    *max_bytes* at most; brokers before Kafka 0.10.1 ignore this limit. *client_id* is the name of the client
    in the broker's logs; None means the client id of the consumer. No partition may be named twice.
    """

    fetches: tuple[PartitionFetch, ...]
    client_id: str | None = None
    max_wait_ms: int = 0
    min_bytes: int = 0
    max_bytes: int = INT32_MAX

    def __post_init__(self) -> None:
        if not isinstance(self.fetches, tuple) or not all(
            isinstance(each, PartitionFetch) for each in self.fetches
        ):
            raise TypeError(f"fetches takes a tuple of PartitionFetch, not {self.fetches!r}")
        if not self.fetches:
            raise ConfigurationError("the request names no partition; add a PartitionFetch to it")
        if len(self.fetches) > MOST_FETCHES:
            raise ConfigurationError(
                f"the request has {len(self.fetches):,} fetches; at most {MOST_FETCHES:,} are allowed"
            )
        counts = Counter(each.where for each in self.fetches)
        if len(counts) < len(self.fetches):
            twice = counts.most_common(1)[0][0]
            raise ConfigurationError(
                f"the request names partition {twice} twice, but the broker would answer only once; use "
                "multifetch()"
            )
        if self.client_id is not None:
            argument_checks.text(self.client_id, "client_id")
        argument_checks.whole(self.max_wait_ms, "max_wait_ms")
        argument_checks.whole(self.min_bytes, "min_bytes")
        argument_checks.whole(self.max_bytes, "max_bytes", low=1)


class FetchRequestBuilder:
    """Builds a SimpleFetchRequest step by step. Every method except ``build`` returns the builder itself.

    ::

        request = FetchRequestBuilder().client_id("audit").add_fetch("readings", 0, 17, 100_000).build()
    """

    def __init__(self) -> None:
        self._client_id: str | None = None
        self._max_wait_ms = 0
        self._min_bytes = 0
        self._max_bytes = INT32_MAX
        self._fetches: dict[TopicPartition, PartitionFetch] = {}

    def add_fetch(self, topic: str, partition: int, offset: int, fetch_size: int = _MAX_BYTES) -> Self:
        """Add a fetch of one partition, up to about *fetch_size* bytes. If the partition was added before,
        the new fetch replaces the earlier one."""
        fetch = PartitionFetch(topic, partition, offset, fetch_size)
        self._fetches.pop(fetch.where, None)
        self._fetches[fetch.where] = fetch
        return self

    def client_id(self, client_id: str) -> Self:
        """Set the name of the client in the broker's logs. By default, it is the client id of the
        consumer."""
        self._client_id = argument_checks.text(client_id, "client_id")
        return self

    def max_wait(self, max_wait_ms: int) -> Self:
        """Set how long the broker waits for *min_bytes*, in milliseconds. The default is 0."""
        self._max_wait_ms = argument_checks.whole(max_wait_ms, "max_wait_ms")
        return self

    def min_bytes(self, min_bytes: int) -> Self:
        """Set the number of bytes for which the broker waits. The default is 0."""
        self._min_bytes = argument_checks.whole(min_bytes, "min_bytes")
        return self

    def max_bytes(self, max_bytes: int) -> Self:
        """Limit the bytes of the whole response. Brokers before Kafka 0.10.1 ignore this limit."""
        self._max_bytes = argument_checks.whole(max_bytes, "max_bytes", low=1)
        return self

    def build(self) -> SimpleFetchRequest:
        """Return the request, and remove the added fetches from the builder. The other settings remain.

        Raises ConfigurationError if no fetch was added since the last call of ``build``.
        """
        if not self._fetches:
            raise ConfigurationError("the builder has no fetch; call add_fetch() before build()")
        fetches = tuple(self._fetches.values())
        self._fetches.clear()
        return SimpleFetchRequest(
            fetches, self._client_id, self._max_wait_ms, self._min_bytes, self._max_bytes
        )


def wire_request(
    fetches: Iterable[PartitionFetch],
    max_wait_ms: int = 0,
    min_bytes: int = 0,
    max_bytes: int = INT32_MAX,
    *,
    isolation_level: int = 0,
) -> FetchRequest:
    """Return *fetches* as a request of Kafka's protocol, in the same order. Since Kafka 0.10.1, a broker
    fills its response in the order of the request. The broker answers when it has *min_bytes* bytes, or after
    *max_wait_ms*, and sends at most about *max_bytes*.

    If *isolation_level* is 1 (``read_committed``), the broker sends records up to the last stable offset
    only, and lists the aborted transactions.
    """
    topics: list[FetchRequest.FetchTopic] = []
    for each in fetches:
        if not topics or topics[-1].topic != each.topic:
            topics.append(FetchRequest.FetchTopic(topic=each.topic))
        topics[-1].partitions.append(
            FetchRequest.FetchPartition(
                partition=each.partition, fetch_offset=each.offset, partition_max_bytes=each.max_bytes
            )
        )
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        topics=topics,
    )
