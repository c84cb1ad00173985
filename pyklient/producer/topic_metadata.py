"""What the producer needs to know of topics: before the first record of one can be taken, and while it sends.

``TopicMetadata`` is asked in users' threads, and ends with a topic that can be sent to, or with an error
that tells apart what is missing: the bootstrap servers, the topic, its leader, or a way to the address at
which the leader says it is. ``MetadataRefresher`` is the sender's.
"""

import time
from collections.abc import Callable, Collection
from functools import partial

from pyklient.errors import KafkaError, KafkaTimeoutError, UnsupportedVersionError, broker_error, error_facts
from pyklient.net.backoff import Backoff
from pyklient.net.client import NetworkClient, Purpose
from pyklient.net.metadata import Metadata, TopicInfo
from pyklient.producer.threads.sender_thread import BlockingWorker
from pyklient.protocol.messages import ProduceRequest

__all__ = ["MAX_PRODUCE_VERSION", "MetadataRefresher", "TopicMetadata"]

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

    def forget(self, topic: str) -> None:
        """Nobody sends to *topic* any more."""
        self._available.pop(topic, None)

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


class MetadataRefresher:
    """Keeps the metadata of the topics in use fresh. In the sender's turn, but for what *worker* does.

    *topics* tells which those are. The outcome goes to *learned*, with the error if there is none; *post* has
    it called in the sender's turn. *timeout* and *max_age* are in seconds.
    """

    def __init__(
        self,
        client: NetworkClient,
        backoff: Backoff,
        worker: BlockingWorker,
        *,
        timeout: float,
        max_age: float,
        topics: Callable[[], Collection[str]],
        post: Callable[[Callable[[], None]], None],
        learned: Callable[[Metadata | None, KafkaError | None], None],
    ) -> None:
        self.timer = self.alarm = float("inf")
        """When it asks next: the sender's."""
        self._client = client
        self._backoff = backoff
        self._worker = worker
        self._timeout = timeout
        self._max_age = max_age
        self._topics = topics
        self._post = post
        self._learned = learned
        self._new_topics: set[str] = set()
        self._due = time.monotonic() + max_age
        self._asking = False
        self._failures = 0
        self._pause_until = 0.0

    @property
    def due(self) -> float:
        """When ``ask`` has something to do."""
        return float("inf") if self._asking else self._due

    def want(self, topic: str | None = None) -> None:
        """The metadata is out of date, or lacks *topic*; ask as soon as the last time is long enough ago."""
        if topic is not None:
            self._new_topics.add(topic)
        self._due = min(self._due, max(time.monotonic(), self._pause_until))

    def ask(self) -> None:
        """Ask, which is due."""
        self._asking = True
        self._due = float("inf")
        new, self._new_topics = self._new_topics, set()
        self._worker.run(partial(self._refresh, {*self._topics(), *new}, bool(new)))

    def _refreshed(self, metadata: Metadata | None, failure: KafkaError | None) -> None:
        """When the next attempt is due, and when it is allowed."""
        self._asking = False
        self._failures = 0 if metadata is not None else self._failures + 1
        now = time.monotonic()
        pause = self._backoff.pause(max(self._failures, 1))
        self._pause_until = now + pause
        wanted = max(self._due, self._pause_until)
        self._due = min(wanted, now + (self._max_age if metadata is not None else pause))
        self._learned(metadata, failure)

    # On the worker's thread:

    def _refresh(self, topics: set[str], allow_auto_create: bool) -> None:
        metadata: Metadata | None = None
        failure: KafkaError | None = None
        try:
            metadata = self._client.refresh_metadata(
                topics, self._timeout, allow_auto_create=allow_auto_create
            )
        except Exception as error:
            # Whatever it is, the sender must hear of it: it asks again only when this question has ended.
            failure = error if isinstance(error, KafkaError) else KafkaError(f"asking has failed: {error!r}")
        self._post(partial(self._refreshed, metadata, failure))


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
