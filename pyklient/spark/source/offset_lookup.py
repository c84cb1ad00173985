"""Looks up the partitions that a query reads, and the offsets at which it begins and ends."""

from collections.abc import Collection, Mapping
from functools import partial
from typing import Final, Self, TypeVar

from pyklient.config import ConsumerConfig
from pyklient.error_codes import ErrorCode
from pyklient.errors import BrokerError, ConfigurationError, broker_error
from pyklient.net.dialogue import Dialogue, Pause, Refresh, retried
from pyklient.net.lookups.list_offsets import EARLIEST, LATEST, list_offsets
from pyklient.net.lookups.topic_partitions import missing_topic
from pyklient.net.metadata import Metadata
from pyklient.net.network_client import NetworkClient
from pyklient.protocol.primitives import ZERO_UUID
from pyklient.spark.option_names import SPARK_NAMES, rename_options
from pyklient.spark.source.offset_ranges import LogEnds
from pyklient.spark.source.source_options import Bound, Subscription
from pyklient.topic_partition import TopicPartition

__all__ = ["OffsetLookup", "find_latest", "find_log_ends", "find_offsets", "find_partitions"]

_T = TypeVar("_T")
_ATTEMPTS: Final = 4
"""The number of lookups after which a topic is considered missing, or a log is considered truncated. Several
lookups are needed, because a change takes a moment to reach all brokers."""


def find_partitions(
    subscription: Subscription, *, missing_ok: bool = False
) -> Dialogue[list[TopicPartition]]:
    """Return the partitions of *subscription*, sorted.

    If a topic or partition that *subscription* names does not exist, raises BrokerError. With *missing_ok*,
    leaves the missing partitions out instead.
    """
    if subscription.pattern is not None:
        metadata: Metadata = yield Refresh(None)
        return sorted(
            TopicPartition(name, number)
            for name, topic in metadata.topics.items()
            if subscription.wants(name) and not topic.internal
            for number in topic.partitions
        )
    existing: set[TopicPartition] = set()
    try:
        yield from retried(partial(_find_named, subscription, existing), tries=_ATTEMPTS)
    except BrokerError as error:
        if not (missing_ok and error.retriable):
            raise
    return sorted(existing.intersection(subscription.partitions) if subscription.partitions else existing)


def _find_named(subscription: Subscription, existing: set[TopicPartition]) -> Dialogue[None]:
    """Replace the contents of *existing* with all partitions of the topics that *subscription* names.

    Raises BrokerError for the first named topic or partition that does not exist.
    """
    names = sorted(subscription.topics or {each.topic for each in subscription.partitions})
    metadata: Metadata = yield Refresh(names)
    existing.clear()
    existing.update(
        TopicPartition(name, number)
        for name in names
        if name in metadata.topics
        for number in metadata.topics[name].partitions
    )
    if (missing := missing_topic(metadata, subscription.topics)) is not None:
        raise missing
    for each in subscription.partitions:
        if each not in existing:
            raise broker_error(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"cannot read partition {each}, which the option 'assign' names",
            )


def find_offsets(
    partitions: Collection[TopicPartition], bound: Bound, isolation_level: int
) -> Dialogue[dict[TopicPartition, int]]:
    """Return the offset that *bound* stands for in each of *partitions*.

    Raises ConfigurationError if *bound* has values for single partitions, and these are not exactly
    *partitions*. Also raises ConfigurationError if *bound* is a time, a partition has no record of this time
    or later, and ``startingOffsetsByTimestampStrategy`` is ``error``.
    """
    wanted = bound.at if isinstance(bound.at, Mapping) else dict.fromkeys(partitions, bound.at)
    if wanted.keys() != set(partitions):
        raise ConfigurationError(_other_partitions(bound, wanted, partitions))
    asked = wanted if bound.timed else {each: at for each, at in wanted.items() if at < 0}
    found = {each: at for each, at in wanted.items() if each not in asked}
    listed = yield from list_offsets(asked, isolation_level)
    found.update((each, at.offset) for each, at in listed.items())
    late = sorted(each for each, at in found.items() if at < 0)
    if late and bound.must_match:
        raise ConfigurationError(
            f"{late[0]} has no record with the timestamp {wanted[late[0]]} or a later one, which "
            f"{bound.option} asks for. Set startingOffsetsByTimestampStrategy to latest to begin at the end "
            "of such partitions"
        )
    ends = yield from list_offsets(dict.fromkeys(late, LATEST), isolation_level)
    return found | {each: at.offset for each, at in ends.items()}


def _other_partitions(
    bound: Bound, named: Collection[TopicPartition], partitions: Collection[TopicPartition]
) -> str:
    missing = ", ".join(map(str, sorted(set(partitions) - set(named))))
    unknown = ", ".join(map(str, sorted(set(named) - set(partitions))))
    parts = [
        f"it has no offset for {missing}" if missing else "",
        f"the query does not read {unknown}" if unknown else "",
    ]
    return (
        f"{bound.option} must name each partition that is read, and no other: "
        f"{'; '.join(filter(None, parts))}"
    )


def find_latest(
    partitions: Collection[TopicPartition], known: Mapping[TopicPartition, int], isolation_level: int
) -> Dialogue[dict[TopicPartition, int]]:
    """Return the end of each of *partitions*: its high watermark, or its last stable offset if
    *isolation_level* is 1 (``read_committed``).

    If the reported end of a partition is smaller than its *known* offset, this offset is returned, unless
    further lookups show that the log ends before it.
    """
    listed = yield from list_offsets(dict.fromkeys(partitions, LATEST), isolation_level)
    found = {each: at.offset for each, at in listed.items()}
    short = {each: known[each] for each, offset in found.items() if offset < known.get(each, 0)}
    if short:
        logs = yield from find_log_ends(short)
        found |= {each: min(offset, logs[each].next) for each, offset in short.items()}
    return found


def find_log_ends(known: Mapping[TopicPartition, int]) -> Dialogue[dict[TopicPartition, LogEnds]]:
    """Return the first offset of each partition in *known*, and the offset that its next record will get.

    If a partition seems to end before its *known* offset, it is looked up again a few times, because a new
    leader may not know its high watermark yet.
    """
    first = yield from list_offsets(dict.fromkeys(known, EARLIEST))
    for attempt in range(1, _ATTEMPTS + 1):
        ends = yield from list_offsets(dict.fromkeys(known, LATEST))
        short = [each for each, offset in known.items() if ends[each].offset < offset]
        if not short or attempt == _ATTEMPTS:
            break
        yield Pause()
    return {each: LogEnds(first[each].offset, ends[each].offset) for each in known}


class OffsetLookup:
    """Looks up partitions and offsets. Its connections stay open until :meth:`close`.

    If a lookup takes longer than ``default_api_timeout_ms``, it raises KafkaTimeoutError. Error messages
    contain Spark's names of the options.
    """

    def __init__(self, config: ConsumerConfig) -> None:
        self._config = config
        self._level = int(config.isolation_level == "read_committed")
        with rename_options(SPARK_NAMES):
            self._client = NetworkClient(config)

    def partitions(self, subscription: Subscription, *, missing_ok: bool = False) -> list[TopicPartition]:
        """Return the partitions of *subscription*, sorted.

        If a topic or partition that *subscription* names does not exist, raises BrokerError. With
        *missing_ok*, leaves the missing partitions out instead.
        """
        return self._play(find_partitions(subscription, missing_ok=missing_ok))

    def offsets(self, partitions: Collection[TopicPartition], bound: Bound) -> dict[TopicPartition, int]:
        """Return the offset that *bound* stands for in each of *partitions*. Raises the same errors as
        :func:`find_offsets`."""
        return self._play(find_offsets(partitions, bound, self._level))

    def earliest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the first offset of each of *partitions*."""
        listed = self._play(list_offsets(dict.fromkeys(partitions, EARLIEST)))
        return {each: at.offset for each, at in listed.items()}

    @property
    def cluster_id(self) -> str | None:
        """The cluster id in the metadata of the last lookup; None if the brokers have no cluster id."""
        return self._client.metadata.cluster_id

    def topic_ids(self, topics: Collection[str]) -> dict[str, bytes]:
        """Return the topic ids of *topics*, from the metadata of the last lookup. The result is empty if the
        brokers have no topic ids.

        A topic that is deleted and created again gets another id.
        """
        known = self._client.metadata.topics
        return {name: known[name].id for name in topics if name in known and known[name].id != ZERO_UUID}

    def existing(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """Return those of *partitions* that exist in the cluster."""
        if not partitions:
            return set()
        return set(self.partitions(Subscription(partitions=tuple(sorted(partitions))), missing_ok=True))

    def latest(
        self, partitions: Collection[TopicPartition], known: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Return the end of each of *partitions*.

        *known* contains offsets that the query has reached already, or at which it begins. If the reported
        end of a partition is smaller than its known offset, this offset is returned, unless further lookups
        show that the log ends before it.
        """
        return self._play(find_latest(partitions, known, self._level))

    def log_ends(self, known: Mapping[TopicPartition, int]) -> dict[TopicPartition, LogEnds]:
        """Return the first offset of each partition in *known*, and the offset that its next record will
        get."""
        return self._play(find_log_ends(known))

    def close(self) -> None:
        """Close the connections to the brokers."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _play(self, dialogue: Dialogue[_T]) -> _T:
        with rename_options(SPARK_NAMES):
            return self._client.play(dialogue, self._config.default_api_timeout_ms / 1000)
