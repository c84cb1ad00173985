"""What the brokers say of the topics to read: their partitions, and where in them a query begins and ends."""

from collections.abc import Collection, Mapping
from typing import Self, TypeVar

from pyklient.config import ConsumerConfig
from pyklient.error_codes import ErrorCode
from pyklient.errors import ConfigurationError, KafkaError, broker_error
from pyklient.net.client import NetworkClient
from pyklient.net.dialogue import Dialogue, Pause, Refresh
from pyklient.net.lookups.list_offsets import list_offsets
from pyklient.net.metadata import Metadata
from pyklient.protocol.primitives import ZERO_UUID
from pyklient.spark.option_values import EARLIEST, LATEST
from pyklient.spark.source.offset_ranges import LogEnds
from pyklient.spark.source.source_options import Bound, Subscription

__all__ = ["Brokers", "find_latest", "find_log_ends", "find_offsets", "find_partitions"]

_T = TypeVar("_T")
_PATIENCE = 4
"""Answers for which a topic may be missing, or a log too short: news takes a moment to reach all brokers."""


def find_partitions(
    subscription: Subscription, *, missing_ok: bool = False
) -> Dialogue[list[TopicPartition]]:
    """The partitions of *subscription*, sorted.

    Raises BrokerError for a topic or partition that is named and does not exist, unless *missing_ok*: then
    it is left out.
    """
    if subscription.pattern is not None:
        metadata: Metadata = yield Refresh(None)
        return sorted(
            TopicPartition(name, number)
            for name, topic in metadata.topics.items()
            if subscription.wants(name) and not topic.internal
            for number in topic.partitions
        )
    names = subscription.topics or {each.topic for each in subscription.partitions}
    for attempt in range(1, _PATIENCE + 1):
        metadata = yield Refresh(sorted(names))
        there = {
            TopicPartition(name, number)
            for name in names
            if name in metadata.topics
            for number in metadata.topics[name].partitions
        }
        problem = _missing(subscription, metadata, there)
        if problem is None:
            break
        if not problem.retriable or (attempt == _PATIENCE and not missing_ok):
            raise problem
        if attempt < _PATIENCE:
            yield Pause(because=problem)
    return sorted(there.intersection(subscription.partitions) if subscription.partitions else there)


def _missing(
    subscription: Subscription, metadata: Metadata, there: Collection[TopicPartition]
) -> KafkaError | None:
    """The error of the first topic or partition that is named and not there."""
    topics = {each.topic for each in there}
    for name in subscription.topics:
        if name not in topics:
            info = metadata.topics.get(name)
            code = (info.error if info is not None else 0) or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return broker_error(code, f"reading topic {name}")
    for each in subscription.partitions:
        if each not in there:
            return broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"reading {each}, which is assigned")
    return None


def find_offsets(
    partitions: Collection[TopicPartition], bound: Bound, isolation_level: int
) -> Dialogue[dict[TopicPartition, int]]:
    """The offset of *bound* in each of *partitions*.

    Raises ConfigurationError where it names other partitions, or a time that no record has reached and
    must have.
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
            f"{bound.option}: no record of {late[0]} is of time {wanted[late[0]]} or later; set "
            "startingOffsetsByTimestampStrategy to latest to begin at its end"
        )
    ends = yield from list_offsets(dict.fromkeys(late, LATEST), isolation_level)
    return found | {each: at.offset for each, at in ends.items()}


def _other_partitions(
    bound: Bound, named: Collection[TopicPartition], partitions: Collection[TopicPartition]
) -> str:
    missing = ", ".join(map(str, sorted(set(partitions) - set(named))))
    strange = ", ".join(map(str, sorted(set(named) - set(partitions))))
    parts = [
        f"it says nothing of {missing}" if missing else "",
        f"{strange} is not read here" if strange else "",
    ]
    return (
        f"{bound.option} names other partitions than are read: {'; '.join(filter(None, parts))}. "
        "It must name each of them"
    )


def find_latest(
    partitions: Collection[TopicPartition], known: Mapping[TopicPartition, int], isolation_level: int
) -> Dialogue[dict[TopicPartition, int]]:
    """The end of each of *partitions*: the high watermark, with *isolation_level* 1 the last stable offset.

    Never before the offset that is *known*, unless the log does not reach that.
    """
    listed = yield from list_offsets(dict.fromkeys(partitions, LATEST), isolation_level)
    found = {each: at.offset for each, at in listed.items()}
    short = {each: known[each] for each, offset in found.items() if offset < known.get(each, 0)}
    if short:
        logs = yield from find_log_ends(short)
        found |= {each: min(offset, logs[each].next) for each, offset in short.items()}
    return found


def find_log_ends(known: Mapping[TopicPartition, int]) -> Dialogue[dict[TopicPartition, LogEnds]]:
    """What each partition in *known* holds, open transactions included. Where it ends before the offset that
    is *known*, it is asked again for a while: a leader that is new may not know yet how far it has got."""
    first = yield from list_offsets(dict.fromkeys(known, EARLIEST))
    for attempt in range(1, _PATIENCE + 1):
        ends = yield from list_offsets(dict.fromkeys(known, LATEST))
        short = [each for each, offset in known.items() if ends[each].offset < offset]
        if not short or attempt == _PATIENCE:
            break
        yield Pause()
    return {each: LogEnds(first[each].offset, ends[each].offset) for each in known}


class Brokers:
    """Asks them, over connections that are kept until :meth:`close`.

    Each call takes ``default_api_timeout_ms`` at most and raises KafkaTimeoutError after that.
    """

    def __init__(self, config: ConsumerConfig) -> None:
        self._config = config
        self._level = int(config.isolation_level == "read_committed")
        self._client = NetworkClient(config)

    def partitions(self, subscription: Subscription, *, missing_ok: bool = False) -> list[TopicPartition]:
        """See :func:`find_partitions`."""
        return self._play(find_partitions(subscription, missing_ok=missing_ok))

    def offsets(self, partitions: Collection[TopicPartition], bound: Bound) -> dict[TopicPartition, int]:
        """See :func:`find_offsets`."""
        return self._play(find_offsets(partitions, bound, self._level))

    def earliest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each."""
        listed = self._play(list_offsets(dict.fromkeys(partitions, EARLIEST)))
        return {each: at.offset for each, at in listed.items()}

    @property
    def cluster_id(self) -> str | None:
        """The id of the cluster, as the last call has found it; None where the brokers have none."""
        return self._client.metadata.cluster_id

    def topic_ids(self, topics: Collection[str]) -> dict[str, bytes]:
        """The ids of *topics*, as the last call has found them: another id is another topic. Those of brokers
        that have none are left out."""
        known = self._client.metadata.topics
        return {name: known[name].id for name in topics if name in known and known[name].id != ZERO_UUID}

    def existing(self, partitions: Collection[TopicPartition]) -> set[TopicPartition]:
        """Those of *partitions* that are there."""
        if not partitions:
            return set()
        return set(self.partitions(Subscription(partitions=tuple(sorted(partitions))), missing_ok=True))

    def latest(
        self, partitions: Collection[TopicPartition], known: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """See :func:`find_latest`."""
        return self._play(find_latest(partitions, known, self._level))

    def log_ends(self, known: Mapping[TopicPartition, int]) -> dict[TopicPartition, LogEnds]:
        """See :func:`find_log_ends`."""
        return self._play(find_log_ends(known))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _play(self, conversation: Dialogue[_T]) -> _T:
        return self._client.play(conversation, self._config.default_api_timeout_ms / 1000)
