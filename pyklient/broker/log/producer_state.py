"""The state of each producer in a partition: its epoch, its last batches, and its open transaction.

The last batches show if a new batch is a retry, or if sequence numbers are missing before it. The open
transactions decide the last stable offset. The state is read from the file that a clean shutdown has written
or, without this file, from the batches of the log.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from pyklient.broker.api_errors import ApiError
from pyklient.broker.log.clean_shutdown import NO_TRANSACTION, ProducerState, SequencedBatch
from pyklient.broker.log.transaction_markers import TransactionMarker
from pyklient.error_codes import ErrorCode

__all__ = ["ProducerStates"]

_REMEMBERED = 5  # as many requests as an idempotent producer may have in flight
_SEQUENCE_MODULUS = 2**31
_NO_SEQUENCE = -1
_EPOCH_BUMP = 2
"""The first version of transactions in which the coordinator increments the epoch before it writes
transaction markers."""


@dataclass(slots=True)
class _Producer:
    epoch: int
    batches: deque[SequencedBatch] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    coordinator_epoch: int = -1
    last_timestamp_ms: int = -1


class ProducerStates:
    """The producers of one partition.

    At most *capacity* producers are kept. If there are more, the least recently active ones without an open
    transaction are forgotten.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._states: OrderedDict[int, _Producer] = OrderedDict()
        self._open: dict[int, int] = {}
        """The first offset of each open transaction, by producer id. The first entry has the smallest offset,
        because each new transaction begins at the end of the log."""

    def __len__(self) -> int:
        return len(self._states)

    def __contains__(self, producer_id: int) -> bool:
        return producer_id in self._states

    @property
    def first_open_offset(self) -> int | None:
        """The first offset of the oldest open transaction; None if no transaction is open."""
        return next(iter(self._open.values()), None)

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """Return True if the producer has an open transaction with this *epoch*."""
        return producer_id in self._open and self._states[producer_id].epoch == epoch

    def snapshot(self) -> list[ProducerState]:
        """Return the state of all producers, in the form that :meth:`restore` accepts."""
        return [
            ProducerState(
                producer_id,
                state.epoch,
                list(state.batches),
                state.coordinator_epoch,
                state.last_timestamp_ms,
                self._open.get(producer_id, NO_TRANSACTION),
            )
            for producer_id, state in self._states.items()
        ]

    def restore(self, producers: Iterable[ProducerState]) -> None:
        """Restore the state of *producers*, which a clean shutdown has saved."""
        opened = []
        for producer_id, epoch, batches, coordinator_epoch, last_timestamp_ms, first_offset in producers:
            self._states[producer_id] = _Producer(
                epoch, deque(batches, maxlen=_REMEMBERED), coordinator_epoch, last_timestamp_ms
            )
            if first_offset != NO_TRANSACTION:
                opened.append((first_offset, producer_id))
        self._open = {producer_id: first_offset for first_offset, producer_id in sorted(opened)}
        self._forget()

    def check(
        self, producer_id: int, epoch: int, first_sequence: int, count: int, *, transactional: bool = False
    ) -> SequencedBatch | None:
        """Check a batch of *count* records that a producer has sent. If the producer has sent this batch
        before, return the stored batch. Return None if the batch is the producer's next one.

        Raises ApiError: INVALID_PRODUCER_EPOCH if *epoch* is older than the producer's last epoch,
        OUT_OF_ORDER_SEQUENCE_NUMBER if *first_sequence* is not the next sequence number, and
        INVALID_TXN_STATE if the batch is not *transactional* although a transaction of the producer is open.
        An unknown producer may start at any sequence number, because its batches may have been deleted with
        old segments. In a newer epoch (KIP-360), sequence numbers start at 0 again.
        """
        state = self._states.get(producer_id)
        if state is None:
            return None
        self.check_epoch(producer_id, epoch)
        if epoch > state.epoch:
            expected = 0
        else:
            last_sequence = (first_sequence + count - 1) % _SEQUENCE_MODULUS
            for batch in state.batches:
                if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                    return batch
            expected = (state.batches[-1].last_sequence + 1) % _SEQUENCE_MODULUS if state.batches else 0
        if first_sequence != expected:
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} sent a batch with sequence number {first_sequence} instead of "
                f"{expected}",
            )
        if producer_id in self._open and not transactional:
            raise ApiError(
                ErrorCode.INVALID_TXN_STATE,
                f"producer {producer_id} has an open transaction, but sent a batch that does not belong to "
                "it",
            )
        return None

    def check_epoch(self, producer_id: int, epoch: int) -> None:
        """Raise ApiError (INVALID_PRODUCER_EPOCH) if *epoch* is older than the producer's last epoch."""
        state = self._states.get(producer_id)
        if state is not None and epoch < state.epoch:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} sent a batch with epoch {epoch}, but its epoch is already "
                f"{state.epoch}",
            )

    def check_marker(self, marker: TransactionMarker, transaction_version: int) -> None:
        """Raise ApiError if *marker* may not be written: INVALID_PRODUCER_EPOCH if its epoch is too old, and
        TRANSACTION_COORDINATOR_FENCED if a newer transaction coordinator has written a marker.

        With *transaction_version* 2, the epoch must be newer than the producer's epoch in the partition,
        unless the same marker is written again (KIP-890).
        """
        state = self._states.get(marker.producer_id)
        if state is None:
            return
        is_repeated = marker.producer_id not in self._open
        if marker.producer_epoch < state.epoch or (
            transaction_version >= _EPOCH_BUMP and marker.producer_epoch == state.epoch and not is_repeated
        ):
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"a transaction marker of producer {marker.producer_id} has epoch {marker.producer_epoch}, "
                f"but the producer's epoch is already {state.epoch}",
            )
        if marker.coordinator_epoch < state.coordinator_epoch:
            raise ApiError(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"a transaction marker of producer {marker.producer_id} has coordinator epoch "
                f"{marker.coordinator_epoch}, but an earlier marker had epoch {state.coordinator_epoch}",
            )

    def add_batch(
        self,
        producer_id: int,
        epoch: int,
        first_sequence: int,
        count: int,
        base_offset: int,
        timestamp_ms: int,
        *,
        transactional: bool = False,
    ) -> None:
        """Remember a batch that has been appended to the log at *base_offset*. A *transactional* batch begins
        a transaction if the producer has none open. *first_sequence* is -1 if the batch has no sequence
        number."""
        state = self._active(producer_id, epoch)
        if first_sequence != _NO_SEQUENCE:
            last_sequence = (first_sequence + count - 1) % _SEQUENCE_MODULUS
            state.batches.append(SequencedBatch(first_sequence, last_sequence, base_offset, timestamp_ms))
        state.last_timestamp_ms = timestamp_ms
        if transactional:
            self._open.setdefault(producer_id, base_offset)
        self._forget()

    def end_transaction(self, marker: TransactionMarker, timestamp_ms: int) -> int | None:
        """Remember *marker*, which has been appended to the log. Return the first offset of the transaction
        that it ends; None if the producer has no open transaction."""
        state = self._active(marker.producer_id, marker.producer_epoch)
        state.coordinator_epoch = marker.coordinator_epoch
        state.last_timestamp_ms = timestamp_ms
        first_offset = self._open.pop(marker.producer_id, None)
        self._forget()
        return first_offset

    def _active(self, producer_id: int, epoch: int) -> _Producer:
        """Return the state of a producer, after making it the most recently active one, with *epoch*. If
        *epoch* is new, the batches of the previous epoch are forgotten."""
        state = self._states.get(producer_id)
        if state is None:
            state = self._states[producer_id] = _Producer(epoch)
        elif state.epoch != epoch:
            state.epoch = epoch
            state.batches.clear()
        self._states.move_to_end(producer_id)
        return state

    def _forget(self) -> None:
        while len(self._states) > self._capacity:
            idle = next((each for each in self._states if each not in self._open), None)
            if idle is None:
                return
            del self._states[idle]
