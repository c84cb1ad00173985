"""MultiSendEventHandler: sends batches of items as the default event handler of Kafka 0.7 does."""

import logging
from collections.abc import Sequence
from typing import TypeAlias

from pyklient.classic.callback_handler import CallbackHandler, before_sending
from pyklient.classic.dropped_items import DroppedItems
from pyklient.classic.event_handler import EventHandler
from pyklient.classic.message_encoding import MessageEncoder
from pyklient.classic.partition_candidates import PartitionCandidates
from pyklient.classic.producer_config import ClassicProducerConfig
from pyklient.classic.producer_request import ProducerRequest
from pyklient.classic.queue_item import ANY_PARTITION, QueueItem
from pyklient.errors import ClosedError, FailedToSendMessageError, ForkError, KafkaError

__all__ = ["MultiSendEventHandler"]

log = logging.getLogger("pyklient.producer")

_Groups: TypeAlias = dict[tuple[str, int], list[tuple[QueueItem, bytes | None]]]
"""The items for each partition, by topic and partition. Each item is stored with its encoded bytes."""


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

    def handle(self, items: Sequence[QueueItem]) -> None:
        """Send *items*. If a request to one broker fails, the items for the other brokers are sent
        nevertheless.

        A synchronous producer raises the first failure. An asynchronous producer raises
        FailedToSendMessageError with all items that were not sent; it logs the error of an encoder, and sends
        the other items.
        """
        if self._callback_handler is not None:
            items = before_sending(self._callback_handler, items)
        unsent: list[QueueItem] = []
        failures: list[KafkaError] = []
        for broker_id, groups in self._collate(items).items():
            failure = self._send(broker_id, groups)
            if failure is not None:
                failures.append(failure)
                unsent += [item for group in groups.values() for item, _ in group]
        if not failures:
            return
        if self._is_sync:
            raise failures[0]
        shown = "; ".join(map(str, failures))
        raise FailedToSendMessageError(
            f"{len(unsent)} messages were not sent in {self._attempts} attempts: {shown}", unsent
        ) from failures[0]

    def interrupt(self) -> None:
        """Close the connections, so that a batch that is being sent fails soon."""
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._candidates.close()

    def _collate(self, items: Sequence[QueueItem]) -> dict[int, _Groups]:
        """Return *items* by broker, and by topic and partition, with their bytes."""
        brokers: dict[int, _Groups] = {}
        for item in items:
            try:
                data = self._encoder.value(item.data)
            except Exception as error:
                error.add_note(f"while the producer encoded a message for topic {item.topic}")
                if self._is_sync:
                    raise
                self._dropped.add([item], error, f"the encoder failed for topic {item.topic}: {error!r}")
                continue
            chosen = self._candidates.choose_again(item)
            groups = brokers.setdefault(chosen.broker_id, {})
            groups.setdefault((item.topic, chosen.partition), []).append((item, data))
        return brokers

    def _send(self, broker_id: int, groups: _Groups) -> KafkaError | None:
        """Send *groups* to a broker. Return the failure of the last attempt; None if all items were sent.

        Removes the partitions for which the broker has returned no error from *groups*.
        """
        failure: KafkaError | None = None
        for _ in range(self._attempts):
            try:
                failure = self._attempt(broker_id, groups)
            except (ClosedError, ForkError):
                raise
            except KafkaError as error:
                failure = error
            if failure is None:
                return None
            log.warning("a request to broker %d failed: %s", broker_id, failure)
            self._candidates.forget({topic for topic, _ in groups})
        return failure

    def _attempt(self, broker_id: int, groups: _Groups) -> KafkaError | None:
        requests = [
            ProducerRequest(topic, partition, [data for _, data in group])
            for (topic, partition), group in groups.items()
        ]
        statuses = self._candidates.producer(broker_id).multi_send(requests)
        if statuses is None:
            return None
        first: KafkaError | None = None
        for where, status in statuses.items():
            if status.error is None:
                asked_for = where.partition if (where.topic, where.partition) in groups else ANY_PARTITION
                groups.pop((where.topic, asked_for), None)
            else:
                first = first or status.error
        return first
