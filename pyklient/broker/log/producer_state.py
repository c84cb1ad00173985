"""What a partition knows of idempotent producers: the last batches of each, to tell a retry from a gap.

It comes from the checkpoint of a clean stop, and otherwise from the batch headers of the log.
"""

from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from pyklient.broker.api_errors import Refusal
from pyklient.broker.log.clean_shutdown import ProducerState, Sequenced
from pyklient.error_codes import ErrorCode

__all__ = ["ProducerStates"]

_REMEMBERED = 5  # as many requests as an idempotent producer may have in flight
_SEQUENCE_MODULUS = 2**31


@dataclass(slots=True)
class _Producer:
    epoch: int
    batches: deque[Sequenced] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))


class ProducerStates:
    """Producer id → epoch and last batches, for one partition. At most *capacity* producers are kept."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._states: OrderedDict[int, _Producer] = OrderedDict()

    def __len__(self) -> int:
        return len(self._states)

    def snapshot(self) -> list[ProducerState]:
        """All that is known, for :meth:`restore`."""
        return [
            ProducerState(producer_id, state.epoch, list(state.batches))
            for producer_id, state in self._states.items()
        ]

    def restore(self, producers: Iterable[ProducerState]) -> None:
        """Take up what a clean stop has left."""
        for producer_id, epoch, batches in producers:
            self._states[producer_id] = _Producer(epoch, deque(batches, maxlen=_REMEMBERED))
        while len(self._states) > self._capacity:
            self._states.popitem(last=False)

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
            state = self._states[producer_id] = _Producer(epoch)
        last_sequence = (first_sequence + count - 1) % _SEQUENCE_MODULUS
        state.batches.append(Sequenced(first_sequence, last_sequence, base_offset, timestamp_ms))
        self._states.move_to_end(producer_id)
        if len(self._states) > self._capacity:
            self._states.popitem(last=False)
