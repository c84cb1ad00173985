"""MultiSendEventHandler: sends batches of items as the default event handler of Kafka 0.7 does."""

import logging
from collections.abc import Mapping, Sequence
from functools import partial

from pyklient.classic.batch_limits import BatchLimits
from pyklient.classic.callback_handler import CallbackHandler, before_sending
from pyklient.classic.dropped_items import DroppedItems
from pyklient.classic.encoded_messages import EncodedMessages
from pyklient.classic.event_handler import EventHandler
from pyklient.classic.message_encoding import MessageEncoder
from pyklient.classic.partition_candidates import PartitionCandidates
from pyklient.classic.producer_config import ClassicProducerConfig
from pyklient.classic.producer_request import ProducerRequest, ProducerResponseStatus
from pyklient.classic.queue_item import ANY_PARTITION, QueueItem
from pyklient.classic.sending_in_parts import Groups, UnsentGroup, as_kafka_error, send_in_parts
from pyklient.counted import counted
from pyklient.errors import ClosedError, FailedToSendMessageError, ForkError, KafkaError
from pyklient.topic_partition import TopicPartition

__all__ = ["MultiSendEventHandler"]

log = logging.getLogger("pyklient.producer")


class MultiSendEventHandler(EventHandler):
    """Encodes the messages of a batch, and sends one produce request to each broker, one after the other.

    The broker and the partition of each item were chosen before, by *candidates*. If a request fails, an
    asynchronous producer sends it up to ``num.retries`` times again, at once and to the same broker. A
    synchronous producer sends each request once.
    """

    def __init__(
        self,
        config: ClassicProducerConfig,
        candidates: PartitionCandidates,
        callback_handler: CallbackHandler | None = None,
        dropped: DroppedItems | None = None,
    ) -> None:
        self._callback_handler = callback_handler
        self._dropped = DroppedItems(callback_handler) if dropped is None else dropped
        self._is_sync = config.producer_type == "sync"
        self._attempts = 1 if self._is_sync else config.message_send_max_retries + 1
        self._encoder = MessageEncoder(config)
        self._candidates = candidates
        self._limits = BatchLimits()
        self._closing = False

    def handle(self, items: Sequence[QueueItem]) -> None:
        """Send *items*. If a request to one broker fails, the items for the other brokers are sent
        nevertheless. If the messages of a partition have too many bytes for one request, several requests are
        sent.

        A synchronous producer raises the first failure. An asynchronous producer raises
        FailedToSendMessageError with all items that were not sent. It drops an item whose encoder fails, or
        for which there is no broker, and sends the other items.
        """
        if self._callback_handler is not None:
            items = before_sending(self._callback_handler, items, QueueItem)
        unsent: list[QueueItem] = []
        failures: list[KafkaError] = []
        for broker_id, groups in self._collate(items).items():
            for group in self._send(broker_id, groups).values():
                failures.append(group.error)
                unsent += group.messages.given
        if not failures:
            return
        if self._is_sync:
            raise failures[0]
        errors = "; ".join(dict.fromkeys(map(str, failures)))
        raise FailedToSendMessageError(
            f"{counted(len(unsent), 'message was', 'messages were')} not sent in "
            f"{counted(self._attempts, 'attempt')}: {errors}",
            unsent,
        ) from failures[0]

    def interrupt(self) -> None:
        """Close the connections at once. A batch that is being sent fails soon."""
        self._closing = True
        self._candidates.interrupt()

    def close(self) -> None:
        """Close the connections. If messages were sent with ``acks=0``, wait up to two seconds first, so that
        the brokers can handle them."""
        self._closing = True
        self._candidates.close()

    def _collate(self, items: Sequence[QueueItem]) -> dict[int, Groups]:
        """Encode *items*, and return them grouped by broker and partition.

        If the encoder fails for an item, or there is no broker for an item that a hook has made, a
        synchronous producer raises the error. An asynchronous producer drops the item.
        """
        brokers: dict[int, Groups] = {}
        for item in items:
            failed = "the encoder failed"
            try:
                data = self._encoder.value(item.data)
                failed = "no broker was found"
                chosen = self._candidates.choose_again(item)
            except BaseException as error:  # also SystemExit, which must not end the send thread
                error.add_note(f"while the producer prepared a message for topic {item.topic}")
                if self._is_sync or isinstance(error, ForkError):
                    raise
                self._dropped.add([item], error, f"{failed} for topic {item.topic}: {error!r}")
                continue
            groups = brokers.setdefault(chosen.broker_id, {})
            where = TopicPartition(item.topic, chosen.partition)
            groups.setdefault(where, EncodedMessages([], [], None)).append(item, data, None)
        return brokers

    def _send(self, broker_id: int, groups: Groups) -> dict[TopicPartition, UnsentGroup]:
        """Send *groups* to a broker. Return the messages that are not confirmed after the last attempt."""
        unsent: dict[TopicPartition, UnsentGroup] = {}
        for _ in range(self._attempts):
            earlier = unsent
            unsent = send_in_parts(groups, self._limits, partial(self._send_parts, broker_id))
            for where, group in unsent.items():
                if where in earlier and isinstance(group.error, ClosedError):
                    # The earlier error tells more than that the producer was closed.
                    unsent[where] = group._replace(error=earlier[where].error)
            if not unsent or self._closing:
                break
            self._candidates.forget({where.topic for where in unsent})
            groups = {where: group.messages for where, group in unsent.items()}
        return unsent

    def _send_parts(self, broker_id: int, parts: Groups) -> dict[TopicPartition, KafkaError]:
        """Send one request to a broker, and return the errors of the partitions that have failed."""
        try:
            statuses = self._candidates.producer(broker_id).multi_send(
                [ProducerRequest(*where, part.values) for where, part in parts.items()]
            )
        except ForkError:
            raise
        except Exception as error:
            return dict.fromkeys(parts, as_kafka_error(error))
        if statuses is None:
            return {}
        problems = {where: _error(where, parts, statuses) for where in parts}
        return {where: error for where, error in problems.items() if error is not None}


def _error(
    where: TopicPartition, parts: Groups, statuses: Mapping[TopicPartition, ProducerResponseStatus]
) -> KafkaError | None:
    """Return the error of the messages for *where*, one of the partitions in *parts*. Return None if the
    messages are stored.

    If *where* is ANY_PARTITION of a topic, return the error of the partition that the SyncProducer has chosen
    for these messages. If *parts* also has messages for the chosen partition, the response has one error for
    all messages of the partition.
    """
    if where.partition != ANY_PARTITION:
        return statuses[where].error
    same_topic = {each: status for each, status in statuses.items() if each.topic == where.topic}
    chosen_here = {each: status for each, status in same_topic.items() if each not in parts}
    return next((each.error for each in (chosen_here or same_topic).values() if each.error is not None), None)
