"""Warns of open transactions that hold up reading under ``read_committed``.

A fetcher that has fetched everything up to the last stable offset, and nothing after it, waits for the end of
a transaction. If it has waited for longer than ``open_transaction_warning_ms``, a thread finds out which
producer has begun the transaction, and logs it. The same thread logs the end of the wait.
"""

import logging
import threading
import time
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final, NamedTuple

from pyklient.config import ConsumerConfig
from pyklient.consumer.fetch.fetch_position import Cursor
from pyklient.consumer.locks import new_reporting_lock
from pyklient.errors import ClosedError, ForkError, KafkaError
from pyklient.log_events import log_fields
from pyklient.net.dialogue import Dialogue
from pyklient.net.network_client import NetworkClient
from pyklient.topic_partition import TopicPartition

if TYPE_CHECKING:
    from pyklient.net.lookups.open_transactions import PartitionProducer
    from pyklient.protocol.messages import FetchResponse

__all__ = ["OpenTransactions"]

log = logging.getLogger("pyklient.consumer")

_LOOK_TIMEOUT: Final = 5.0
_ENDED: Final = "has ended"
_WENT_BACK: Final = "is not waited for any more, because reading has gone back"
_NOT_READ: Final = "is not waited for any more, because the partition is not read any more"


class _Wait:
    """The wait of a fetcher at *offset*, the last stable offset of *partition*. The wait began at the time
    *since*, in seconds of ``time.monotonic``."""

    __slots__ = ("offset", "partition", "reported", "since")

    def __init__(self, partition: TopicPartition, offset: int, since: float) -> None:
        self.partition = partition
        self.offset = offset
        self.since = since
        self.reported = False


class _Report(NamedTuple):
    """A log message to write about *wait*, which has lasted for *seconds* seconds. If *ended* is None, the
    message says that the wait goes on. Otherwise *ended* says how the wait has ended."""

    wait: _Wait
    seconds: float
    ended: str | None = None


class OpenTransactions:
    """The open transactions for which the fetchers of one client wait.

    Each fetcher calls :meth:`note` for the partitions that it fetches, and calls :meth:`check`.
    """

    def __init__(self, client: NetworkClient, config: ConsumerConfig) -> None:
        self._client = client
        self._bound: float | None = None
        """The number of seconds after which a wait is reported. None if no wait is reported."""
        if config.isolation_level == "read_committed" and config.open_transaction_warning_ms is not None:
            self._bound = config.open_transaction_warning_ms / 1000
        self._waits: dict[TopicPartition, _Wait] = {}
        self._reports: SimpleQueue[_Report | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._reporting = new_reporting_lock()
        self._closing = False

    def note(
        self, cursor: Cursor, data: "FetchResponse.FetchableTopicResponse.PartitionData", now: float
    ) -> None:
        """Remember whether *cursor* waits until a transaction ends. *data* is the newest response about its
        partition, and the position of *cursor* is already after *data*. A cursor with an end offset never
        waits, because its end offset is not beyond the last stable offset."""
        if self._bound is None or data.error_code or cursor.end is not None:
            return
        partition, position = cursor.partition, cursor.position or 0
        stable = data.last_stable_offset
        wait = self._waits.get(partition)
        waits = 0 <= stable < data.high_watermark and position >= stable
        if wait is not None and (wait.offset != stable or not waits):
            went_back = wait.offset == stable < data.high_watermark
            self._end(wait, _WENT_BACK if went_back else _ENDED, now)
        if waits and (wait is None or wait.offset != stable):
            self._waits[partition] = _Wait(partition, stable, now)

    def drop(self, partition: TopicPartition) -> None:
        """Forget *partition*, which is not read any more."""
        if (wait := self._waits.get(partition)) is not None:
            self._end(wait, _NOT_READ, time.monotonic())

    def check(self, now: float) -> None:
        """Report the waits that last longer than ``open_transaction_warning_ms``."""
        if not self._waits or self._bound is None:
            return
        for wait in list(self._waits.values()):
            if not wait.reported and now - wait.since >= self._bound:
                with self._reporting:
                    begun, wait.reported = not wait.reported, True
                if begun:
                    self._report(_Report(wait, now - wait.since))

    def close(self) -> None:
        """Make the thread that logs the waits end. This method acquires no lock and never waits."""
        self._closing = True
        self._reports.put(None)

    def join(self, deadline: float) -> None:
        """Wait for the thread that logs the waits to end, but not after *deadline*."""
        if self._thread is not None:
            self._thread.join(max(0.0, deadline - time.monotonic()))

    def _end(self, wait: _Wait, how: str, now: float) -> None:
        self._waits.pop(wait.partition, None)
        if wait.reported:
            self._report(_Report(wait, now - wait.since, how))

    def _report(self, report: _Report) -> None:
        with self._reporting:
            if self._thread is None and not self._closing:
                self._thread = threading.Thread(
                    target=self._run, name="pyklient-open-transactions", daemon=True
                )
                self._thread.start()
        self._reports.put(report)

    def _run(self) -> None:
        try:
            while not self._closing and (report := self._reports.get()) is not None:
                if report.ended is None:
                    self._log_begin(report)
                else:
                    _log_end(report, report.ended)
        except (ClosedError, ForkError):
            pass

    def _log_begin(self, report: _Report) -> None:
        wait = report.wait
        producer = transactional_id = None
        try:
            producer = self._client.play(_producer_of(wait), _LOOK_TIMEOUT)
            who = "the broker knows no producer whose transaction begins there"
        except (ClosedError, ForkError):
            raise
        except KafkaError as error:
            who = f"it is not known which producer has begun it: {error}"
        if producer is not None:
            transactional_id = self._transactional_id(producer)
            who = _named(producer, transactional_id)
        log.warning(
            "reading of %s has waited for %.0f s at offset %d for the end of an open transaction; %s. Later "
            "records cannot be read under read_committed before the transaction ends",
            wait.partition,
            report.seconds,
            wait.offset,
            who,
            extra=log_fields(
                "open_transaction_wait_began",
                topic=wait.partition.topic,
                partition=wait.partition.partition,
                offset=wait.offset,
                seconds=round(report.seconds, 3),
                producer=None if producer is None else producer.producer_id,
                epoch=None if producer is None else producer.producer_epoch,
                transactional_id=transactional_id,
            ),
        )

    def _transactional_id(self, producer: "PartitionProducer") -> str | None:
        """Return the transactional id of *producer*. Return None if the brokers do not tell, for instance
        because they are older than Kafka 3.0."""
        from pyklient.net.lookups.open_transactions import list_transactions

        try:
            listed = self._client.play(list_transactions(producer_ids=[producer.producer_id]), _LOOK_TIMEOUT)
        except (ClosedError, ForkError):
            raise
        except KafkaError:
            return None
        return next((each.transactional_id for each in listed), None)


def _producer_of(wait: _Wait) -> "Dialogue[PartitionProducer | None]":
    """Return the producer whose transaction begins at the offset of *wait*. Return None if the leader knows
    no such producer."""
    from pyklient.net.lookups.open_transactions import describe_producers

    producers = yield from describe_producers([wait.partition])
    return next((each for each in producers[wait.partition] if each.transaction_start == wait.offset), None)


def _named(producer: "PartitionProducer", transactional_id: str | None) -> str:
    numbers = f"producer id {producer.producer_id}, epoch {producer.producer_epoch}"
    if transactional_id is None:
        return f"it was begun by the producer with {numbers}"
    return f"it was begun by the producer with the transactional id {transactional_id!r} ({numbers})"


def _log_end(report: _Report, how: str) -> None:
    wait = report.wait
    log.warning(
        "the open transaction at offset %d of %s %s, after %.0f s",
        wait.offset,
        wait.partition,
        how,
        report.seconds,
        extra=log_fields(
            "open_transaction_wait_ended",
            topic=wait.partition.topic,
            partition=wait.partition.partition,
            offset=wait.offset,
            seconds=round(report.seconds, 3),
        ),
    )
