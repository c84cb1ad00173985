"""The last batches of each idempotent producer in a partition. They show if a new batch is a retry, or if
sequence numbers are missing before it.

They are read from the file that a clean shutdown has written or, without this file, from the batch headers of
the log.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from pyklient.broker.api_errors import ApiError
from pyklient.broker.log.clean_shutdown import ProducerState, SequencedBatch
from pyklient.error_codes import ErrorCode

__all__ = ["ProducerStates"]

_REMEMBERED = 5  # as many requests as an idempotent producer may have in flight
_SEQUENCE_MODULUS = 2**31


@dataclass(slots=True)
class _Producer:
    epoch: int
    batches: deque[SequencedBatch] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))


class ProducerStates:
    """The epoch and the last batches of each idempotent producer, for one partition.

    At most *capacity* producers are kept. If there are more, the least recently active ones are forgotten.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._states: OrderedDict[int, _Producer] = OrderedDict()

    def __len__(self) -> int:
        return len(self._states)

    def snapshot(self) -> list[ProducerState]:
        """Return the state of all producers, in the form that :meth:`restore` accepts."""
        return [
            ProducerState(producer_id, state.epoch, list(state.batches))
            for producer_id, state in self._states.items()
        ]

    def restore(self, producers: Iterable[ProducerState]) -> None:
        """Restore the state of *producers*, which a clean shutdown has saved."""
        for producer_id, epoch, batches in producers:
            self._states[producer_id] = _Producer(epoch, deque(batches, maxlen=_REMEMBERED))
        while len(self._states) > self._capacity:
            self._states.popitem(last=False)

    def check(self, producer_id: int, epoch: int, first_sequence: int, count: int) -> SequencedBatch | None:
        """Check a batch of *count* records that a producer has sent. Return the stored batch if it is a
        retry, or None if it is the next batch of the producer.

        Raises ApiError: INVALID_PRODUCER_EPOCH if *epoch* is older than the producer's last epoch, and
        OUT_OF_ORDER_SEQUENCE_NUMBER if *first_sequence* is not the next sequence number. An unknown producer
        may start at any number, because its batches may have been deleted with old segments. In a newer epoch
        (KIP-360), sequence numbers start at 0 again.
        """
        state = self._states.get(producer_id)
        if state is None:
            return None
        if epoch < state.epoch:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} sent a batch with epoch {epoch}, but its epoch is already "
                f"{state.epoch}",
            )
        if epoch > state.epoch:
            expected = 0
        else:
            last_sequence = (first_sequence + count - 1) % _SEQUENCE_MODULUS
            for batch in state.batches:
                if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                    return batch
            expected = (state.batches[-1].last_sequence + 1) % _SEQUENCE_MODULUS
        if first_sequence != expected:
            raise ApiError(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} sent a batch with sequence number {first_sequence} instead of "
                f"{expected}",
            )
        return None

    def add_batch(
        self,
        producer_id: int,
        epoch: int,
        first_sequence: int,
        count: int,
        base_offset: int,
        timestamp_ms: int,
    ) -> None:
        """Remember a batch that has been appended to the log at *base_offset*."""
        state = self._states.get(producer_id)
        if state is None or state.epoch != epoch:
            state = self._states[producer_id] = _Producer(epoch)
        last_sequence = (first_sequence + count - 1) % _SEQUENCE_MODULUS
        state.batches.append(SequencedBatch(first_sequence, last_sequence, base_offset, timestamp_ms))
        self._states.move_to_end(producer_id)
        if len(self._states) > self._capacity:
            self._states.popitem(last=False)
