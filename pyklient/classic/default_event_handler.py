"""DefaultEventHandler: sends batches of messages as the producer of Kafka 0.8 to 0.10 does."""

import logging
import threading
import time
from collections.abc import Collection, Iterable, Sequence
from functools import partial

from pyklient.classic.batch_limits import BatchLimits
from pyklient.classic.broker_partition_info import NO_LEADER, BrokerPartitionInfo
from pyklient.classic.callback_handler import CallbackHandler, before_sending
from pyklient.classic.collation import Collator
from pyklient.classic.dropped_items import DroppedItems
from pyklient.classic.encoded_messages import EncodedMessages
from pyklient.classic.event_handler import EventHandler
from pyklient.classic.message_encoding import MessageEncoder
from pyklient.classic.producer_config import ClassicProducerConfig
from pyklient.classic.producer_pool import ProducerPool
from pyklient.classic.producer_request import ProducerRequest
from pyklient.classic.sending_in_parts import Groups, as_kafka_error, send_in_parts
from pyklient.counted import counted
from pyklient.error_codes import ErrorCode
from pyklient.errors import ClosedError, FailedToSendMessageError, ForkError, KafkaError, broker_error
from pyklient.kernel import KeyedMessage
from pyklient.topic_partition import TopicPartition

__all__ = ["DefaultEventHandler"]

log = logging.getLogger("pyklient.producer")

_ERRORS_SHOWN = 3
"""The largest number of failures that the text of the error for a batch names."""


class DefaultEventHandler(EventHandler):
    """Encodes the messages of a batch, and sends one produce request to each leader, one after the other.

    Messages that are not confirmed are sent again, up to ``message.send.max.retries`` times. Before each
    retry the handler waits for ``retry.backoff.ms``, and asks for the leaders again. If a request gets no
    response, a retry may store its messages a second time.
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
        self._refresh_interval = config.topic_metadata_refresh_interval_ms / 1000
        self._refreshed_at: float | None = None
        self._topics: set[str] = set()
        """The topics of the messages that were sent since the last refresh for
        ``topic.metadata.refresh.interval.ms``. The next such refresh asks for these topics."""
        self._failures: dict[str, KafkaError] = {}
        """The failures of the last attempt, by topic or partition."""
        self._limits = BatchLimits()
        self._closing = threading.Event()

    def handle(self, messages: Sequence[KeyedMessage]) -> None:
        """Send *messages*. Raise FailedToSendMessageError if some of them are not confirmed after all
        retries, or when another thread closes the handler.

        If an encoder fails, a synchronous producer raises the error of the encoder, and sends nothing. An
        asynchronous producer logs the error and sends the other messages.
        """
        if self._callback_handler is not None:
            messages = before_sending(self._callback_handler, messages, KeyedMessage)
        encoded, not_encoded = self._encoder.encode(messages)
        for message, error in not_encoded:
            if self._config.producer_type == "sync":
                raise error
            self._dropped.add([message], error, f"the encoder failed for topic {message.topic}: {error!r}")
        self._send_with_retries(encoded)

    def interrupt(self) -> None:
        """Close the connections at once. A batch that is being sent fails soon."""
        self._closing.set()
        self._pool.interrupt()

    def close(self) -> None:
        """Close the connections. If messages were sent with ``acks=0``, wait up to two seconds first, so that
        the brokers can handle them."""
        self._closing.set()
        self._pool.close()

    def _send_with_retries(self, outstanding: list[EncodedMessages]) -> None:
        """Send *outstanding*. Raise FailedToSendMessageError with the messages that are not confirmed after
        all retries.

        If code of the program, such as a partitioner, raises SystemExit, or if an unexpected error occurs, a
        synchronous producer raises this error. An asynchronous producer raises FailedToSendMessageError
        instead, which has only the unconfirmed messages: after any other error, the send thread counts all
        messages as dropped.
        """
        self._failures = {}
        try:
            for _ in range(self._config.message_send_max_retries + 1):
                if not outstanding:
                    return
                self._topics |= _topics(outstanding)
                self._refresh_if_old()
                outstanding = self._send(outstanding)
                if outstanding and not self._prepare_retry(outstanding):
                    break
        except (Exception, SystemExit) as error:
            if self._config.producer_type == "sync":
                raise
            raise FailedToSendMessageError(
                f"{_messages_were(outstanding)} not sent: {error!r}", _given(outstanding)
            ) from error
        if outstanding:
            raise self._failed_to_send(outstanding)

    def _refresh_if_old(self) -> None:
        if self._refresh_interval < 0:
            return
        if self._refreshed_at is None or time.monotonic() - self._refreshed_at > self._refresh_interval:
            self._refresh(self._topics)
            self._topics.clear()
            self._refreshed_at = time.monotonic()

    def _refresh(self, topics: Collection[str]) -> None:
        try:
            self._info.refresh(topics)
        except ForkError:
            raise
        except KafkaError as error:
            # If a topic is not known, the send asks for its metadata again, and logs the same failure.
            level = logging.WARNING if self._info.knows(topics) else logging.DEBUG
            log.log(level, "the metadata of the cluster was not refreshed: %s", error)
        self._collator.forget_choices()

    def _send(self, messages: list[EncodedMessages]) -> list[EncodedMessages]:
        """Send *messages* once, and return those that are not confirmed."""
        earlier, self._failures = self._failures, {}
        try:
            return self._send_to_leaders(messages)
        finally:
            if earlier and all(isinstance(each, ClosedError) for each in self._failures.values()):
                self._failures = earlier  # It says more than that the producer was closed.

    def _send_to_leaders(self, messages: list[EncodedMessages]) -> list[EncodedMessages]:
        try:
            by_leader = self._collator.collate(messages)
        except ForkError:
            raise
        except Exception as error:
            log.warning("%s not sent: %s", _messages_were(messages), error)
            self._failures["all messages"] = as_kafka_error(error)
            return messages
        unsent: list[EncodedMessages] = []
        for leader, groups in by_leader.items():
            for where, group in send_in_parts(
                groups, self._limits, partial(self._send_parts, leader)
            ).items():
                self._failures[str(where)] = group.error
                unsent.append(group.messages)
        return unsent

    def _send_parts(self, leader: int, parts: Groups) -> dict[TopicPartition, KafkaError]:
        """Send one request to *leader*, and return the errors of the partitions that have failed."""
        try:
            if leader == NO_LEADER:
                names = ", ".join(map(str, parts))
                raise broker_error(ErrorCode.LEADER_NOT_AVAILABLE, f"cannot produce to {names}")
            statuses = self._pool.producer(leader).send_checked(
                {where: ProducerRequest(*where, part.values, part.keys) for where, part in parts.items()}
            )
        except ForkError:
            raise
        except Exception as error:
            return dict.fromkeys(parts, as_kafka_error(error))
        if statuses is None:
            return {}
        return {where: each.error for where, each in statuses.items() if each.error is not None}

    def _prepare_retry(self, messages: Sequence[EncodedMessages]) -> bool:
        """Wait, and ask for the leaders of *messages* again. Return False if the handler is closed
        meanwhile."""
        if self._closing.wait(self._config.retry_backoff_ms / 1000):
            return False
        self._refresh(_topics(messages))
        return True

    def _failed_to_send(self, messages: Sequence[EncodedMessages]) -> FailedToSendMessageError:
        after_retries = f"after {counted(self._config.message_send_max_retries, 'retry', 'retries')}"
        if self._closing.is_set():
            after_retries = "because the producer was closed"
        found = list(dict.fromkeys(map(str, self._failures.values())))
        errors = "; ".join(found[:_ERRORS_SHOWN])
        error = FailedToSendMessageError(
            f"{_messages_were(messages)} not sent {after_retries}; the last attempt failed: {errors}",
            _given(messages),
        )
        error.__cause__ = next(iter(self._failures.values()), None)
        return error


def _given(messages: Iterable[EncodedMessages]) -> list[KeyedMessage]:
    return [given for group in messages for given in group.given]


def _topics(messages: Iterable[EncodedMessages]) -> set[str]:
    return {topic for group in messages for topic in group.topics}


def _messages_were(messages: Iterable[EncodedMessages]) -> str:
    return counted(sum(map(len, messages)), "message was", "messages were")
