"""DefaultEventHandler: sends batches of messages as the producer of Kafka 0.8 to 0.10 does."""

import logging
import threading
import time
from collections.abc import Collection, Sequence

from pyklient.classic.batch_limits import BatchLimits
from pyklient.classic.broker_partition_info import NO_LEADER, BrokerPartitionInfo
from pyklient.classic.callback_handler import CallbackHandler, before_sending
from pyklient.classic.collation import Collator
from pyklient.classic.dropped_items import DroppedItems
from pyklient.classic.event_handler import EventHandler
from pyklient.classic.keyed_message import KeyedMessage
from pyklient.classic.message_encoding import MessageEncoder, as_given
from pyklient.classic.producer_config import ClassicProducerConfig
from pyklient.classic.producer_pool import ProducerPool
from pyklient.classic.producer_request import ProducerRequest
from pyklient.error_codes import ErrorCode
from pyklient.errors import ClosedError, FailedToSendMessageError, ForkError, KafkaError, broker_error
from pyklient.topic_partition import TopicPartition

__all__ = ["DefaultEventHandler"]

log = logging.getLogger("pyklient.producer")

_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)
_ERRORS_SHOWN = 3
"""The largest number of failures that the error for a batch names."""


class DefaultEventHandler(EventHandler):
    """Encodes the messages of a batch, and sends one produce request to each leader, one after the other.

    Messages that are not confirmed are sent again, up to ``message.send.max.retries`` times. Before each
    retry the handler waits for ``retry.backoff.ms``, and asks for the leaders again. If a request got no
    answer, its messages may be stored twice because of that.
    """

    def __init__(
        self,
        config: ClassicProducerConfig,
        callback_handler: CallbackHandler | None = None,
        dropped: DroppedItems | None = None,
    ) -> None:
        self._config = config
        self._callback_handler = callback_handler
        self._dropped = DroppedItems(callback_handler) if dropped is None else dropped
        self._encoder = MessageEncoder(config)
        self._pool = ProducerPool(config)
        self._info = BrokerPartitionInfo(config, self._pool)
        self._collator = Collator(config.chosen_partitioner, self._info)
        self._refreshed_at: float | None = None
        self._topics: set[str] = set()
        """The topics of the messages that were sent since the metadata was last refreshed because of its
        age."""
        self._failures: dict[str, KafkaError] = {}
        """The failures of the last attempt, by topic or partition."""
        self._limits = BatchLimits()
        self._closing = threading.Event()

    def handle(self, messages: Sequence[KeyedMessage]) -> None:
        """Send *messages*. Raise FailedToSendMessageError if some of them are not confirmed after all
        retries.

        If an encoder fails, a synchronous producer raises the error of the encoder, and sends nothing. An
        asynchronous producer logs the error and sends the other messages.
        """
        if self._callback_handler is not None:
            messages = before_sending(self._callback_handler, messages)
        encoded, not_encoded = self._encoder.encode(messages)
        for message, error in not_encoded:
            if self._config.producer_type == "sync":
                raise error
            self._dropped.add([message], error, f"the encoder failed for topic {message.topic}: {error!r}")
        outstanding = encoded
        for _ in range(self._config.message_send_max_retries + 1):
            if not outstanding:
                return
            self._topics.update({message.topic for message in outstanding})
            self._refresh_if_old()
            outstanding = self._send(outstanding)
            if outstanding:
                self._prepare_retry(outstanding)
        if outstanding:
            raise self._failed_to_send(outstanding)

    def interrupt(self) -> None:
        """Close the connections, so that a batch that is being sent fails soon."""
        self.close()

    def close(self) -> None:
        """Close the connections. A batch that is being sent fails soon."""
        self._closing.set()
        self._pool.close()

    def _refresh_if_old(self) -> None:
        interval = self._config.topic_metadata_refresh_interval_ms / 1000
        if interval < 0:
            return
        if self._refreshed_at is None or time.monotonic() - self._refreshed_at > interval:
            self._refresh(self._topics)
            self._topics.clear()
            self._refreshed_at = time.monotonic()

    def _refresh(self, topics: Collection[str]) -> None:
        try:
            self._info.refresh(topics)
        except (ClosedError, ForkError):
            raise
        except KafkaError as error:
            log.warning("the metadata of the cluster was not refreshed: %s", error)
        self._collator.forget_choices()

    def _send(self, messages: Sequence[KeyedMessage]) -> list[KeyedMessage]:
        """Send *messages* once, and return those that are not confirmed."""
        self._failures.clear()
        try:
            by_leader = self._collator.collate(messages)
        except (ClosedError, ForkError):
            raise
        except KafkaError as error:
            log.warning("%s not sent: %s", _count(messages), error)
            self._failures["all messages"] = error
            return list(messages)
        failed: list[KeyedMessage] = []
        for leader, groups in by_leader.items():
            failed += self._send_to(leader, groups)
        return failed

    def _send_to(self, leader: int, groups: dict[TopicPartition, list[KeyedMessage]]) -> list[KeyedMessage]:
        """Send *groups* to *leader*, and return the messages that have failed.

        If the messages of a partition have too many bytes for one request, several requests are sent. If a
        request fails, the messages of the partition after it are not sent and count as failed too, so that
        the messages keep their order.
        """
        failed: list[KeyedMessage] = []
        while groups:
            parts = {
                where: group[: self._limits.count(where.topic, group)] for where, group in groups.items()
            }
            problems = self._send_parts(leader, parts)
            unsent: dict[TopicPartition, list[KeyedMessage]] = {}
            for where, group in groups.items():
                problem, size = problems.get(where), len(parts[where])
                if problem is None:
                    if len(group) > size:
                        unsent[where] = group[size:]
                elif size > 1 and getattr(problem, "code", None) in _TOO_LARGE:
                    self._limits.halve(where.topic, parts[where])
                    unsent[where] = group
                else:
                    log.warning("messages for %s were not stored: %s", where, problem)
                    self._failures[str(where)] = problem
                    failed += group
            groups = unsent
        return failed

    def _send_parts(
        self, leader: int, parts: dict[TopicPartition, list[KeyedMessage]]
    ) -> dict[TopicPartition, KafkaError]:
        """Send one request to *leader*, and return the errors of the partitions that have failed."""
        try:
            if leader == NO_LEADER:
                names = ", ".join(map(str, parts))
                raise broker_error(ErrorCode.LEADER_NOT_AVAILABLE, f"cannot produce to {names}")
            statuses = self._pool.producer(leader).multi_send(
                [_request(where, part) for where, part in parts.items()]
            )
        except (ClosedError, ForkError):
            raise
        except Exception as error:
            cause = error if isinstance(error, KafkaError) else KafkaError(f"{type(error).__name__}: {error}")
            return dict.fromkeys(parts, cause)
        return {where: each.error for where, each in (statuses or {}).items() if each.error is not None}

    def _prepare_retry(self, messages: Sequence[KeyedMessage]) -> None:
        self._closing.wait(self._config.retry_backoff_ms / 1000)
        self._refresh({message.topic for message in messages})

    def _failed_to_send(self, messages: Sequence[KeyedMessage]) -> FailedToSendMessageError:
        retries = self._config.message_send_max_retries
        found = list(dict.fromkeys(map(str, self._failures.values())))
        shown = "; ".join(found[:_ERRORS_SHOWN])
        error = FailedToSendMessageError(
            f"{_count(messages)} not sent after {retries} retries; the last attempt failed: {shown}",
            [as_given(message) for message in messages],
        )
        error.__cause__ = next(iter(self._failures.values()), None)
        return error


def _request(where: TopicPartition, group: Sequence[KeyedMessage]) -> ProducerRequest:
    keys = [message.key for message in group]
    return ProducerRequest(
        where.topic,
        where.partition,
        [message.message for message in group],
        None if keys.count(None) == len(keys) else keys,
    )


def _count(messages: Sequence[KeyedMessage]) -> str:
    return "1 message was" if len(messages) == 1 else f"{len(messages):,} messages were"
