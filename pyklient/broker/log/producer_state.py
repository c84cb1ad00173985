"""The last batches of each idempotent producer in a partition. They tell whether a new batch is a retry, or
leaves a gap in the sequence numbers.

They are read from the file that a clean shutdown has written, or else from the batch headers of the log.
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
        """Check a batch of *count* records of an idempotent producer. If the batch was stored before, return
        the stored batch. If it is the next batch in order, return None.

        Raises ApiError: INVALID_PRODUCER_EPOCH if *epoch* is older than the last one seen, and
        OUT_OF_ORDER_SEQUENCE_NUMBER if *first_sequence* is not the next sequence number. A producer that is
        not known may start at any number, because its batches may have been deleted with old segments. With a
        newer epoch, which a producer chooses after a failure (KIP-360), sequence numbers start at 0 again.
        """
        state = self._states.get(producer_id)
        if state is None:
            return None
        if epoch < state.epoch:
            raise ApiError(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} sent epoch {epoch}, but the partition has seen epoch {state.epoch}",
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
                f"producer {producer_id} sent sequence number {first_sequence} instead of {expected}",
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
