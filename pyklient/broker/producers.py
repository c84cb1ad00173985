"""What a partition knows of idempotent producers: the last batches of each, to tell a retry from a gap.

Rebuilt from batch headers when a log is opened, so it needs no file of its own.
"""

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import NamedTuple

from pyklient.broker.refusal import Refusal
from pyklient.error_codes import ErrorCode

__all__ = ["ProducerStates", "Sequenced"]

_REMEMBERED = 5  # as many requests as an idempotent producer may have in flight
_SEQUENCE_MODULUS = 2**31


class Sequenced(NamedTuple):
    """One stored batch of a producer."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    timestamp_ms: int


@dataclass(slots=True)
class _ProducerState:
    epoch: int
    batches: deque[Sequenced] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))


class ProducerStates:
    """Producer id → epoch and last batches, for one partition. At most *capacity* producers are kept."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._states: OrderedDict[int, _ProducerState] = OrderedDict()

    def __len__(self) -> int:
        return len(self._states)

    def check(self, producer_id: int, epoch: int, first_sequence: int, count: int) -> Sequenced | None:
        """The stored batch that this one repeats, or None if it is the next in order.

        Raises Refusal: an epoch older than seen is fenced; anything but the next sequence is out of order.
        A producer unknown here may start anywhere: its past may have been deleted with old segments.
        A newer epoch, which a producer takes after a failure (KIP-360), starts again from 0.
        """
        state = self._states.get(producer_id)
        if state is None:
            return None
        if epoch < state.epoch:
            raise Refusal(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"producer {producer_id} has epoch {epoch}, the partition has seen {state.epoch}",
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
            raise Refusal(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"producer {producer_id} sent sequence {first_sequence} where {expected} is next",
            )
        return None

    def stored(
        self,
        producer_id: int,
        epoch: int,
        first_sequence: int,
        count: int,
        base_offset: int,
        timestamp_ms: int,
    ) -> None:
        """A batch of the producer is in the log now."""
        state = self._states.get(producer_id)
        if state is None or state.epoch != epoch:
            state = self._states[producer_id] = _ProducerState(epoch)
        last_sequence = (first_sequence + count - 1) % _SEQUENCE_MODULUS
        state.batches.append(Sequenced(first_sequence, last_sequence, base_offset, timestamp_ms))
        self._states.move_to_end(producer_id)
        if len(self._states) > self._capacity:
            self._states.popitem(last=False)
