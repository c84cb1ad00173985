"""The transaction coordinator of a node: the transactional ids that the node coordinates, and the end of
their transactions."""

import logging
from collections.abc import Generator
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final

from pyklient.broker.api_errors import ApiError
from pyklient.broker.cluster.metadata import ClusterMetadata
from pyklient.broker.cluster.transaction_topic import TRANSACTION_TOPIC, transaction_partition
from pyklient.broker.config import BrokerConfig
from pyklient.broker.log.log_manager import LogManager
from pyklient.broker.log.partition_log import ProducerIdentity
from pyklient.broker.log.transaction_markers import TransactionMarker
from pyklient.broker.transactions.marker_writer import MarkerWriter
from pyklient.broker.transactions.transaction import Transaction
from pyklient.broker.transactions.transaction_log import TransactionLog
from pyklient.error_codes import ErrorCode
from pyklient.topic_partition import TopicPartition

__all__ = ["TransactionCoordinator"]

_logger = logging.getLogger("pyklient.broker")

_TRANSACTIONS_PER_STEP: Final = 100
_FLEXIBLE_VALUES: Final = 1
"""The first version of transactions in which the values of records in ``__transaction_state`` have a flexible
format (KIP-482)."""


class TransactionCoordinator:
    """The transactional ids in those partitions of ``__transaction_state`` that the node leads.

    ``load`` restores them, and completes the transactions whose end had begun before the restart. Each new
    state is written to the log before it takes effect.
    """

    def __init__(
        self, config: BrokerConfig, cluster: ClusterMetadata, logs: LogManager, markers: MarkerWriter
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._logs = logs
        self._markers = markers
        self._partitions: dict[int, TransactionLog] = {}

    @property
    def loading(self) -> bool:
        """True until all transactional ids are loaded."""
        return not all(partition.loaded for partition in self._open_partitions())

    @property
    def transactions(self) -> list[Transaction]:
        """The states of all transactional ids that are loaded."""
        return [each for log in self._open_partitions() for each in log.transactions.values()]

    def load(self, now_ms: int) -> Generator[None]:
        """Restore all transactional ids. This is a generator, so that the event loop can serve clients
        between two steps."""
        for partition in self._open_partitions():
            if not partition.loaded:
                yield from partition.load()
                yield from partition.compact()
        yield from self.end_transactions(now_ms)

    def check_loaded(self, transactional_id: str) -> None:
        """Raise ApiError (COORDINATOR_LOAD_IN_PROGRESS) if the partition that stores *transactional_id* is
        not loaded yet."""
        if not self._partition(transactional_id).loaded:
            raise ApiError(
                ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
                f"the transactional id {transactional_id!r} is still being loaded; ask again",
            )

    def find(self, transactional_id: str) -> Transaction | None:
        """Return the state of *transactional_id*; None if it is not known."""
        return self._partition(transactional_id).transactions.get(transactional_id)

    def init_producer(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdentity | None, now_ms: int
    ) -> ProducerIdentity:
        """Return the producer id and the new epoch of a producer that starts. Producers with older epochs are
        fenced.

        If a transaction is open, it is aborted, and the error CONCURRENT_TRANSACTIONS makes the producer ask
        again, as in Kafka. *expected* is the identity of a producer that continues after an error (KIP-360).
        Also raises ApiError if the request is invalid, or if the producer is fenced.
        """
        _check_transactional_id(transactional_id)
        if not 0 < timeout_ms <= self._config.transaction_max_timeout_ms:
            raise ApiError(
                ErrorCode.INVALID_TRANSACTION_TIMEOUT,
                f"the time-out of transactions must be between 1 and "
                f"transaction_max_timeout_ms={self._config.transaction_max_timeout_ms}, not {timeout_ms} ms",
            )
        ids = self._cluster.producer_ids
        found = self.find(transactional_id) or Transaction(transactional_id, ids.new(), timeout_ms, now_ms)
        if found.is_open:
            found.check_may_continue(expected)
            self._abort(found, now_ms)
            raise ApiError(
                ErrorCode.CONCURRENT_TRANSACTIONS,
                f"an open transaction of {transactional_id!r} was aborted; ask again",
            )
        started = found.initialized(expected, timeout_ms, now_ms, ids)
        self._store(started, now_ms)
        return started.producer

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: AbstractSet[TopicPartition],
        version: int,
        now_ms: int,
    ) -> None:
        """Add *partitions* to the transaction of *producer*. Begin a transaction if none is open.

        *version* is the version of transactions that the producer uses. Raises ApiError if the producer may
        not use the transactional id, or while its last transaction is being ended.
        """
        found = self._known(transactional_id)
        added = found.with_partitions(producer, partitions, version, now_ms)
        if added is not found:
            self._store(added, now_ms)

    def check_partition(
        self, transactional_id: str, producer: ProducerIdentity, partition: TopicPartition
    ) -> None:
        """Raise ApiError (TRANSACTION_ABORTABLE) if *producer* has not added *partition* to its
        transaction (KIP-890), or the same errors as :meth:`add_partitions`."""
        if not self._known(transactional_id).has_partition(producer, partition):
            raise ApiError(
                ErrorCode.TRANSACTION_ABORTABLE,
                f"{partition} has not been added to the transaction of {transactional_id!r}",
            )

    def end(
        self, transactional_id: str, producer: ProducerIdentity, version: int, now_ms: int, *, commit: bool
    ) -> ProducerIdentity:
        """Commit or abort the transaction of *producer*. Return the identity for the next transaction.

        The result is decided and stored when this method returns, even if not all markers are written yet.
        Raises ApiError if the producer may not end the transaction, or if the state of the transaction does
        not allow the request.
        """
        found = self._known(transactional_id)
        if found.is_ended(producer, version, commit=commit):
            return found.producer
        ending = found.ending(version, now_ms, self._cluster.producer_ids, commit=commit)
        self._store(ending, now_ms)
        self._complete(ending, now_ms)
        return ending.completed(now_ms).producer

    def end_transactions(self, now_ms: int) -> Generator[None]:
        """Abort the transactions that are past their time-outs, and write markers that could not be written
        before.

        This is a generator, so that the event loop can serve clients between two steps.
        """
        for count, each in enumerate(self.transactions, 1):
            transaction = self.find(each.transactional_id)
            try:
                if transaction is None:
                    pass
                elif transaction.is_prepared:
                    self._complete(transaction, now_ms)
                elif transaction.is_open and now_ms - transaction.started_ms >= transaction.timeout_ms:
                    _logger.info(
                        "the transaction of %r was aborted, because it was open for more than %d ms",
                        transaction.transactional_id,
                        transaction.timeout_ms,
                    )
                    self._abort(transaction, now_ms)
            except OSError as error:
                _logger.error(
                    "the transaction of %r could not be ended: %s; the next check tries again",
                    each.transactional_id,
                    error,
                )
            if not count % _TRANSACTIONS_PER_STEP:
                yield

    def clean_up(self, now_ms: int) -> Generator[None]:
        """Delete the transactional ids that have not been used for ``transactional_id_expiration_ms``, and
        compact the logs.

        This is a generator, so that the event loop can serve clients between two steps.
        """
        limit = self._config.transactional_id_expiration_ms
        for partition in self._open_partitions():
            for each in list(partition.transactions.values()):
                ended = not each.is_open and not each.is_prepared
                if ended and now_ms - each.updated_ms >= limit:
                    partition.delete(each.transactional_id, now_ms)
            yield
            yield from partition.compact()

    def _abort(self, transaction: Transaction, now_ms: int) -> None:
        """Abort the open *transaction*, and fence its producer."""
        ending = transaction.aborting(self._config.transaction_version, now_ms)
        self._store(ending, now_ms)
        self._complete(ending, now_ms)

    def _complete(self, transaction: Transaction, now_ms: int) -> None:
        """Write the markers of *transaction*, and then store that it has ended.

        If a marker cannot be written now, the transaction does not end, and ``end_transactions`` tries again.
        A partition gets no marker if it was deleted, or if it has a newer epoch of the producer.
        """
        marker = TransactionMarker(
            transaction.producer_id,
            transaction.epoch,
            transaction.is_commit,
            self._cluster.topics.partition(*self._where(transaction.transactional_id)).leader_epoch,
        )
        left = set(transaction.partitions)
        for partition in sorted(transaction.partitions):
            try:
                self._markers.write(partition, marker, transaction.version, now_ms)
            except ApiError as error:
                if error.code not in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_PRODUCER_EPOCH):
                    _logger.info(
                        "cannot write the end marker of transaction %s to %s yet. The next check tries "
                        "again. The error: %s",
                        transaction.transactional_id,
                        partition,
                        error.message,
                    )
                    continue
                _logger.info(
                    "the end marker of transaction %s was not written to %s, and the broker does not try "
                    "again. The error: %s",
                    transaction.transactional_id,
                    partition,
                    error.message,
                )
            except OSError as error:
                _logger.error(
                    "cannot write the end marker of transaction %s to %s. The next check tries again. The "
                    "error: %s",
                    transaction.transactional_id,
                    partition,
                    error,
                )
                continue
            left.discard(partition)
        self._replace(replace(transaction, partitions=frozenset(left)))
        if left:
            return
        try:
            self._store(transaction.completed(now_ms), now_ms)
        except OSError as error:
            _logger.error(
                "the end of the transaction of transactional id %r could not be stored: %s; the next "
                "periodic check tries again",
                transaction.transactional_id,
                error,
            )

    def _known(self, transactional_id: str) -> Transaction:
        _check_transactional_id(transactional_id)
        found = self.find(transactional_id)
        if found is None:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_ID_MAPPING,
                f"no producer has started with the transactional id {transactional_id!r}",
            )
        return found

    def _store(self, transaction: Transaction, now_ms: int) -> None:
        self._partition(transaction.transactional_id).store(transaction, now_ms)

    def _replace(self, transaction: Transaction) -> None:
        """Replace the state of a transactional id in memory only. The log keeps the previous state, from
        which the coordinator completes the transaction after a restart."""
        partition = self._partition(transaction.transactional_id)
        partition.transactions[transaction.transactional_id] = transaction

    def _open_partitions(self) -> list[TransactionLog]:
        """Return the partitions of ``__transaction_state`` that the node has. The list is empty as long as
        the topic does not exist."""
        topic = self._cluster.topics.find(TRANSACTION_TOPIC)
        indexes = range(0 if topic is None else len(topic.partitions))
        return [found for index in indexes if (found := self._find_partition(index)) is not None]

    def _find_partition(self, index: int) -> TransactionLog | None:
        found = self._partitions.get(index)
        log = self._logs.by_partition.get((TRANSACTION_TOPIC, index))
        if found is None and log is not None:
            flexible = self._config.transaction_version >= _FLEXIBLE_VALUES
            found = self._partitions[index] = TransactionLog(log, int(flexible))
        return found

    def _where(self, transactional_id: str) -> TopicPartition:
        topic = self._cluster.topics.find(TRANSACTION_TOPIC)
        count = 1 if topic is None else len(topic.partitions)
        return TopicPartition(TRANSACTION_TOPIC, transaction_partition(transactional_id, count))

    def _partition(self, transactional_id: str) -> TransactionLog:
        """Return the partition that stores *transactional_id*. Raises ApiError (NOT_COORDINATOR) if this node
        does not have the partition."""
        found = self._find_partition(self._where(transactional_id).partition)
        if found is None:
            raise ApiError(
                ErrorCode.NOT_COORDINATOR,
                f"this node does not coordinate the transactional id {transactional_id!r}",
            )
        return found


def _check_transactional_id(transactional_id: str) -> None:
    if not transactional_id:
        raise ApiError(ErrorCode.INVALID_REQUEST, "the transactional id in the request is empty")
