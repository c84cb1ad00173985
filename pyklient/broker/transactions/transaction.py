"""The state of one transactional id, and the rules by which requests change it.

The functions return the new state, and the caller stores it. Version 1 of transactions is that of KIP-98. In
version 2 (KIP-890), the end of each transaction increments the producer epoch, so that a late request of an
earlier transaction is recognized.
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, Final

from pyklient.broker.api_errors import ApiError
from pyklient.broker.cluster.producer_ids import ProducerIds
from pyklient.broker.log.partition_log import ProducerIdentity
from pyklient.broker.transactions.states import Event, TransactionState, next_state
from pyklient.error_codes import ErrorCode
from pyklient.topic_partition import TopicPartition

__all__ = ["EPOCH_BUMP", "Transaction"]

EPOCH_BUMP: Final = 2
"""The first version of transactions in which the end of a transaction increments the producer epoch."""

_MAX_EPOCH: Final = 2**15 - 1
_NONE: Final = -1
_PREPARED: Final = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
_COMMITS: Final = (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)


@dataclass(frozen=True, slots=True)
class Transaction:
    """The state of one transactional id: the producer that uses it, and the transaction of this producer.

    ``last_epoch`` is the epoch of the same producer before the last increment, or -1; a request with this
    epoch may be a retry. ``next_producer_id`` is the id that the producer gets when the transaction has
    ended, or -1 if it keeps its id. ``version`` is the version of transactions that the producer uses.
    Times are in milliseconds since 1970.
    """

    transactional_id: str
    producer_id: int
    timeout_ms: int
    updated_ms: int
    previous_producer_id: int = _NONE
    next_producer_id: int = _NONE
    epoch: int = _NONE
    last_epoch: int = _NONE
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = _NONE
    version: int = 0

    @property
    def producer(self) -> ProducerIdentity:
        """The id and epoch of the producer that may use the transactional id now."""
        return ProducerIdentity(self.producer_id, self.epoch)

    @property
    def is_open(self) -> bool:
        """True if a transaction has begun, and its outcome is not decided yet."""
        return self.state is TransactionState.ONGOING

    @property
    def is_prepared(self) -> bool:
        """True if the outcome of the transaction is decided, and its transaction markers are being
        written."""
        return self.state in _PREPARED

    @property
    def is_commit(self) -> bool:
        """True if the last transaction was committed, or is being committed."""
        return self.state in _COMMITS

    @property
    def is_epoch_exhausted(self) -> bool:
        """True if the producer has no epoch left and needs another id. The largest epoch is reserved: it
        only fences the producer."""
        return self.epoch >= _MAX_EPOCH - 1

    def initialized(
        self, expected: ProducerIdentity | None, timeout_ms: int, now_ms: int, ids: ProducerIds
    ) -> "Transaction":
        """Return the state after a producer has started, with a new epoch or a new producer id.

        *expected* is the identity of a producer that continues after an error (KIP-360). Raises ApiError:
        CONCURRENT_TRANSACTIONS while a transaction is being ended, and PRODUCER_FENCED if another producer
        has taken over.
        """
        self.check_may_continue(expected)
        if self.is_prepared:
            raise self._concurrent()
        changes: dict[str, Any] = {
            "previous_producer_id": self.producer_id,
            "timeout_ms": timeout_ms,
            "partitions": frozenset(),
            "started_ms": _NONE,
            "updated_ms": now_ms,
        }
        if self.is_epoch_exhausted and (expected is None or expected.epoch == self.epoch):
            last_epoch = _NONE if expected is None else self.epoch
            return self._after(
                Event.INITIALIZED, producer_id=ids.new(), epoch=0, last_epoch=last_epoch, **changes
            )
        if expected is None:
            return self._after(Event.INITIALIZED, epoch=self.epoch + 1, last_epoch=_NONE, **changes)
        if self.epoch == _NONE or expected.epoch == self.epoch:
            return self._after(Event.INITIALIZED, epoch=self.epoch + 1, last_epoch=self.epoch, **changes)
        if expected.epoch == self.last_epoch:  # The response to the same request was lost.
            return self._after(Event.INITIALIZED, **changes)
        raise self._fenced_error(expected)

    def check_may_continue(self, expected: ProducerIdentity | None) -> None:
        """Raise ApiError (PRODUCER_FENCED) unless *expected* may go on with this transactional id after an
        error.

        *expected* is the identity that the producer had before the error. Its producer id must be the present
        one of this transactional id, or the one that was replaced because it had no epoch left. None, from a
        producer that starts anew, is always accepted.
        """
        if expected is None or self.epoch == _NONE or expected.producer_id == self.producer_id:
            return
        if expected.producer_id != self.previous_producer_id or expected.epoch < _MAX_EPOCH - 1:
            raise self._fenced_error(expected)

    def with_partitions(
        self, producer: ProducerIdentity, added: AbstractSet[TopicPartition], version: int, now_ms: int
    ) -> "Transaction":
        """Return the state after *producer* has added the partitions *added* to its transaction.

        Raises ApiError: INVALID_PRODUCER_ID_MAPPING if the transactional id belongs to another producer id,
        PRODUCER_FENCED if the epoch is not the producer's, and CONCURRENT_TRANSACTIONS while the previous
        transaction is being ended.
        """
        self._check_producer(producer)
        if self.is_open and added <= self.partitions:
            return self
        return self._after(
            Event.PARTITIONS_ADDED,
            partitions=self.partitions | added,
            started_ms=self.started_ms if self.is_open else now_ms,
            updated_ms=now_ms,
            previous_producer_id=self.producer_id,
            version=version,
        )

    def has_partition(self, producer: ProducerIdentity, partition: TopicPartition) -> bool:
        """Return True if *producer* has added *partition* to its transaction. Raises the same errors as
        :meth:`with_partitions`."""
        self._check_producer(producer)
        return partition in self.partitions

    def is_ended(self, producer: ProducerIdentity, version: int, *, commit: bool) -> bool:
        """Check a request of *producer* to commit its transaction, or to abort it if *commit* is false.
        Return True if an earlier request has already done so.

        Raises ApiError: INVALID_PRODUCER_ID_MAPPING or PRODUCER_FENCED if *producer* may not end the
        transaction, CONCURRENT_TRANSACTIONS while the markers of an earlier request of the same kind are
        being written, and INVALID_TXN_STATE if the state of the transaction does not allow the request.
        """
        retried = version >= EPOCH_BUMP and self._is_retry(producer)
        if producer.producer_id != self.producer_id and not retried:
            raise self._mapping_error(producer)
        if retried:
            if self.state in (TransactionState.EMPTY, TransactionState.ONGOING):
                raise self._fenced_error(producer)
        elif producer.epoch != self.epoch or (version >= EPOCH_BUMP and self.is_prepared):
            raise self._fenced_error(producer)
        if self.is_prepared and self.is_commit == commit:
            raise self._concurrent()
        is_complete = self.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
        if is_complete and self.is_commit == commit and (retried or version < EPOCH_BUMP):
            return True
        if retried or next_state(self.state, self._end_event(version, commit=commit)) is None:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE,
                f"the transaction of {self.transactional_id!r} cannot be "
                f"{'committed' if commit else 'aborted'}, because it is in the state {self.state}",
            )
        return False

    def ending(self, version: int, now_ms: int, ids: ProducerIds, *, commit: bool) -> "Transaction":
        """Return the state after the decision to commit or to abort the transaction. :meth:`is_ended` must
        have returned False for the request."""
        event = self._end_event(version, commit=commit)
        changes: dict[str, Any] = {
            "version": version,
            "updated_ms": now_ms,
            "previous_producer_id": self.producer_id,
        }
        if event is Event.ABORT_WITHOUT_PARTITIONS:
            changes["started_ms"] = now_ms
        if version >= EPOCH_BUMP:
            changes["next_producer_id"] = ids.new() if self.is_epoch_exhausted else _NONE
            changes["last_epoch"] = self.epoch
            changes["epoch"] = min(self.epoch + 1, _MAX_EPOCH)
        return self._after(event, **changes)

    def aborting(self, version: int, now_ms: int) -> "Transaction":
        """Return the state after the coordinator has decided to abort the ongoing transaction. The producer's
        epoch is incremented, so that the producer is fenced.

        As in Kafka since 4.1, a producer of *version* 2 can still get the new epoch: with a request to abort
        the transaction, unless another producer has started meanwhile.
        """
        bumped = version >= EPOCH_BUMP
        return self._after(
            Event.ABORT,
            epoch=min(self.epoch + 1, _MAX_EPOCH),
            last_epoch=self.epoch if bumped else _NONE,
            previous_producer_id=self.producer_id,
            version=version if bumped else 0,
            updated_ms=now_ms,
        )

    def completed(self, now_ms: int) -> "Transaction":
        """Return the state after all markers of the transaction have been written."""
        changes: dict[str, Any] = {
            "next_producer_id": _NONE,
            "partitions": frozenset(),
            "updated_ms": now_ms,
            "previous_producer_id": self.producer_id,
        }
        if self.next_producer_id != _NONE:
            changes |= {"producer_id": self.next_producer_id, "epoch": 0}
        return self._after(Event.MARKERS_WRITTEN, **changes)

    def _after(self, event: Event, **changes: Any) -> "Transaction":
        state = next_state(self.state, event)
        assert state is not None, f"{event} in the state {self.state}"
        return replace(self, state=state, **changes)

    def _end_event(self, version: int, *, commit: bool) -> Event:
        if commit:
            return Event.COMMIT
        if version >= EPOCH_BUMP and not self.is_open:
            return Event.ABORT_WITHOUT_PARTITIONS
        return Event.ABORT

    def _is_retry(self, producer: ProducerIdentity) -> bool:
        """Return True if *producer* is the identity that ended the last transaction. In this case the
        producer repeats its request, because it has not got the response with its new identity."""
        if producer.producer_id == self.producer_id:
            return self.epoch == producer.epoch + 1
        return (
            producer.producer_id == self.previous_producer_id
            and producer.epoch == _MAX_EPOCH - 1
            and self.epoch == 0
        )

    def _check_producer(self, producer: ProducerIdentity) -> None:
        if producer.producer_id != self.producer_id:
            raise self._mapping_error(producer)
        if producer.epoch != self.epoch:
            raise self._fenced_error(producer)
        if self.is_prepared:
            raise self._concurrent()

    def _mapping_error(self, producer: ProducerIdentity) -> ApiError:
        return ApiError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            f"the transactional id {self.transactional_id!r} belongs to producer {self.producer_id}, not to "
            f"{producer.producer_id}",
        )

    def _fenced_error(self, producer: ProducerIdentity) -> ApiError:
        return ApiError(
            ErrorCode.PRODUCER_FENCED,
            f"producer {producer.producer_id} with epoch {producer.epoch} may no longer use the "
            f"transactional id {self.transactional_id!r}, which belongs to producer {self.producer_id} with "
            f"epoch {self.epoch}",
        )

    def _concurrent(self) -> ApiError:
        return ApiError(
            ErrorCode.CONCURRENT_TRANSACTIONS,
            f"the transaction of {self.transactional_id!r} has not ended yet (state {self.state}); ask again",
        )
