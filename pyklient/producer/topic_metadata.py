"""Finds the metadata of a topic. Users' threads wait for the metadata before they send the first record to
the topic.

The wait ends when records can be sent to the topic, or with an error. The error tells the reason: no
bootstrap server answers, the topic does not exist, it has no leader, or no leader can be reached at the
address that it advertises.
"""

import time

from pyklient.error_codes import ErrorCode
from pyklient.errors import KafkaError, KafkaTimeoutError, broker_error, error_facts
from pyklient.net.backoff import Backoff
from pyklient.net.metadata import TopicInfo
from pyklient.net.network_client import NetworkClient, Purpose
from pyklient.producer.broker_requirements import BrokerRequirements
from pyklient.producer.metadata_refresher import MetadataRefresher

__all__ = ["TopicMetadata"]


class TopicMetadata:
    """Finds the metadata of topics in the threads that call ``send``. Several threads may use it at the same
    time.

    *refresher* looks a topic up in the background if the calling thread must not wait. A leader that does not
    meet *requirements* cannot be used.
    """

    def __init__(
        self,
        client: NetworkClient,
        backoff: Backoff,
        refresher: MetadataRefresher,
        requirements: BrokerRequirements,
    ) -> None:
        self.requirements = requirements
        self._client = client
        self._backoff = backoff
        self._refresher = refresher
        self._reached: set[int] = set()
        self._available: dict[str, tuple[TopicInfo, frozenset[int], list[int]]] = {}

    def wait(self, topic: str, deadline: float) -> int:
        """Wait until a leader of *topic* can be reached. Return the number of partitions of *topic*.

        While the topic is unknown, its metadata is requested again until *deadline* (``time.monotonic``).
        Another client may be about to create the topic, or the request itself may make the brokers create it.
        Raises BrokerError if the topic does not exist, has no leader or may not be written. Raises
        KafkaTimeoutError or BrokerConnectionError if no bootstrap server, or no leader, can be reached.
        """
        info = self._client.metadata.topics.get(topic)
        answers = 0
        while True:
            error = _problem_of(topic, info) or self._unreachable(info, deadline)
            if error is None and info is not None:
                return len(info.partitions)
            if error is not None and answers:
                pause = self._backoff.pause(answers)
                if not error.retriable or time.monotonic() + pause >= deadline:
                    raise error
                self._client.pause(pause)
            try:
                info = self._refresh(topic, deadline)
            except KafkaError as no_answer:
                if error is not None and answers and no_answer.retriable:
                    raise error from no_answer  # the broker's answer says more
                raise
            answers += 1

    def refreshed(self, topic: str, deadline: float) -> int:
        """Ask a broker for the metadata of *topic* now. Return the number of partitions of *topic*."""
        info = self._refresh(topic, deadline)
        error = _problem_of(topic, info)
        if error is not None:
            raise error
        return len(info.partitions) if info is not None else 0

    def available(self, topic: str, unavailable: frozenset[int]) -> list[int]:
        """Return the partitions of *topic* that have a leader. Leave out those whose leader is one of the
        brokers *unavailable*, unless all partitions have such leaders."""
        info = self._client.metadata.topics.get(topic)
        if info is None:
            return []
        seen, without, numbers = self._available.get(topic, (None, unavailable, []))
        if seen is not info or without != unavailable:  # called once per batch; seldom changes
            led = [number for number, one in info.partitions.items() if one.leader >= 0]
            numbers = [number for number in led if info.partitions[number].leader not in unavailable] or led
            self._available[topic] = info, unavailable, numbers
        return numbers

    def is_available(self, topic: str, partition: int, unavailable: frozenset[int]) -> bool:
        """Return True if *partition* of *topic* has a leader that is not one of the brokers *unavailable*."""
        info = self._client.metadata.topics.get(topic)
        found = None if info is None else info.partitions.get(partition)
        return found is not None and found.leader >= 0 and found.leader not in unavailable

    def forget(self, topic: str) -> None:
        """Drop all state of *topic*, because no records are sent to it any more."""
        self._available.pop(topic, None)

    def _refresh(self, topic: str, deadline: float) -> TopicInfo | None:
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            self._refresher.look_up(topic)
            raise KafkaTimeoutError(
                f"topic {topic!r} is not known yet, and this call must not wait for the brokers; the topic "
                "is being looked up, so send again later"
            )
        return self._client.refresh_metadata([topic], remaining, allow_auto_create=True).topics.get(topic)

    def _unreachable(self, info: TopicInfo | None, deadline: float) -> KafkaError | None:
        """Connect to a leader of the topic in *info*. Return the failure, or None if there is a connection.

        One leader is enough, because another leader that is down now may be up when its records are due.
        """
        leaders = {one.leader for one in info.partitions.values() if one.leader >= 0} if info else set()
        if leaders & self._reached:
            return None
        failure: KafkaError | None = None
        for index, node_id in enumerate(sorted(leaders)):
            seconds = (deadline - time.monotonic()) / (len(leaders) - index)
            try:
                connection = self._client.connection(node_id, Purpose.PRODUCE, max(seconds, 0.001))
                self.requirements.check(connection)
            except KafkaError as error:
                failure = error
            else:
                self._reached.add(node_id)
                return None
        return failure


def _problem_of(topic: str, info: TopicInfo | None) -> KafkaError | None:
    """Return the reason why no record can be sent to *topic*, or None if there is no such reason."""
    if info is None or info.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return broker_error(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"topic {topic!r} does not exist, and the brokers do not create topics automatically; create it, "
            "or check the spelling",
        )
    if info.error and not error_facts(info.error).retriable:
        return broker_error(info.error, f"topic {topic!r}")
    if any(one.leader >= 0 for one in info.partitions.values()):
        return None
    return broker_error(
        info.error or ErrorCode.LEADER_NOT_AVAILABLE,
        f"topic {topic!r}: no partition has a leader; are the brokers that hold it down?",
    )
