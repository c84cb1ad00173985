"""What the producer needs to know of a topic before its first record can be taken, and how it learns it.

``wait`` ends with a topic that can be sent to, or with an error that tells apart what is missing: the
bootstrap servers, the topic, its leader, or a way to the address at which the leader says it is.
"""

import time
from collections.abc import Callable

from pyklient.errors import KafkaError, KafkaTimeoutError, UnsupportedVersionError, broker_error, error_facts
from pyklient.net.backoff import Backoff
from pyklient.net.client import NetworkClient, Purpose
from pyklient.net.metadata import TopicInfo
from pyklient.protocol.messages import ProduceRequest

__all__ = ["MAX_PRODUCE_VERSION", "TopicMetadata"]

MAX_PRODUCE_VERSION = 12
"""From 13 on, topics go by their ids instead of their names."""

_FIRST_VERSION_WITH_HEADERS = 3
_UNKNOWN_TOPIC_OR_PARTITION = 3
_LEADER_NOT_AVAILABLE = 5


class TopicMetadata:
    """Plays the metadata part in the threads that send. Safe to use from several of them.

    *ask* has the sender look a topic up where the caller must not wait.
    """

    def __init__(self, client: NetworkClient, backoff: Backoff, ask: Callable[[str], None]) -> None:
        self._client = client
        self._backoff = backoff
        self._ask = ask
        self._reached: set[int] = set()
        self._available: dict[str, tuple[TopicInfo, list[int]]] = {}
        self._produce_version: int | None = None

    def wait(self, topic: str, deadline: float) -> int:
        """How many partitions *topic* has, once one of them has a leader that can be reached.

        An unknown topic is asked for again until *deadline* (``time.monotonic``): it may be about to be
        created, by this very question where the brokers are set up so. Raises BrokerError for a topic that
        does not exist, has no leader or must not be written; KafkaTimeoutError or BrokerConnectionError
        where no bootstrap server, or no leader, can be reached.
        """
        info = self._client.metadata.topics.get(topic)
        answers = 0
        while True:
            error = _trouble(topic, info) or self._out_of_reach(info, deadline)
            if error is None and info is not None:
                return len(info.partitions)
            if error is not None and answers:
                pause = self._backoff.pause(answers)
                if not error.retriable or time.monotonic() + pause >= deadline:
                    raise error
                self._client.pause(pause)
            try:
                info = self._refresh(topic, deadline)
            except KafkaError as unanswered:
                if error is not None and answers and unanswered.retriable:
                    raise error from unanswered  # an answer says more than none
                raise
            answers += 1

    def refreshed(self, topic: str, deadline: float) -> int:
        """How many partitions *topic* has by metadata that is asked for now."""
        info = self._refresh(topic, deadline)
        error = _trouble(topic, info)
        if error is not None:
            raise error
        return len(info.partitions) if info is not None else 0

    def available(self, topic: str) -> list[int]:
        """The partitions of *topic* that have a leader."""
        info = self._client.metadata.topics.get(topic)
        if info is None:
            return []
        seen, numbers = self._available.get(topic, (None, []))
        if seen is not info:  # asked for with every batch, and different only with other metadata
            numbers = [number for number, one in info.partitions.items() if one.leader >= 0]
            self._available[topic] = info, numbers
        return numbers

    def refuse_headers(self) -> None:
        """Raises UnsupportedVersionError where the brokers, by the one that answered, have no headers."""
        if self._produce_version is not None and self._produce_version < _FIRST_VERSION_WITH_HEADERS:
            raise UnsupportedVersionError(
                "the brokers store an older record format, which has no headers: Kafka 0.11 and later do"
            )

    def _refresh(self, topic: str, deadline: float) -> TopicInfo | None:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            self._ask(topic)
            raise KafkaTimeoutError(
                f"nothing is known of topic {topic!r} yet, and no time is allowed to ask the brokers"
            )
        return self._client.refresh_metadata([topic], remaining, allow_auto_create=True).topics.get(topic)

    def _out_of_reach(self, info: TopicInfo | None, deadline: float) -> KafkaError | None:
        """The error of a leader that cannot be reached; None if one can. One is enough: what is down now
        may be up when its records are due."""
        leaders = {one.leader for one in info.partitions.values() if one.leader >= 0} if info else set()
        if leaders & self._reached:
            return None
        failure: KafkaError | None = None
        for index, node_id in enumerate(sorted(leaders)):
            share = (deadline - time.monotonic()) / (len(leaders) - index)
            try:
                connection = self._client.connection(node_id, Purpose.PRODUCE, max(share, 0.001))
                self._produce_version = connection.version_of(ProduceRequest, MAX_PRODUCE_VERSION)
            except KafkaError as error:
                failure = error
            else:
                self._reached.add(node_id)
                return None
        return failure


def _trouble(topic: str, info: TopicInfo | None) -> KafkaError | None:
    """Why nothing can be sent to a topic; None if it can."""
    if info is None or info.error == _UNKNOWN_TOPIC_OR_PARTITION:
        return broker_error(
            _UNKNOWN_TOPIC_OR_PARTITION,
            f"topic {topic!r} does not exist, and the brokers do not create it by themselves; create it, or "
            "check how it is spelt",
        )
    if info.error and not error_facts(info.error).retriable:
        return broker_error(info.error, f"topic {topic!r}")
    if any(one.leader >= 0 for one in info.partitions.values()):
        return None
    return broker_error(
        info.error or _LEADER_NOT_AVAILABLE,
        f"topic {topic!r}: no partition has a leader; are the brokers that hold it down?",
    )
