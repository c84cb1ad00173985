"""Keeps the records that a mirror has sent. It tells which of them the target cluster has confirmed, and the
offset in each source partition before which all records are confirmed.

Records with consecutive offsets in a source partition, which were appended one after the other to the same
batch of the producer, form a run. A run takes the same memory however many records it has.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

from pyklient.errors import KafkaError
from pyklient.kernel import Batch, Delivery
from pyklient.topic_partition import TopicPartition

__all__ = ["ConfirmedRecords", "Copies", "FailedRecords", "Sent", "SentRecords"]


class Copies(NamedTuple):
    """Records of one source partition that were appended to batches of the producer one after the other.

    ``offsets`` are their source offsets. ``runs`` has one tuple (batch, first, stop) for each target
    partition, which stands for the records ``first`` to ``stop - 1`` of the batch. ``targets`` are the target
    partitions of the records, in order; it is empty if there is only one run.
    """

    offsets: Sequence[int]
    runs: Sequence[tuple[Batch, int, int]]
    targets: Sequence[int] = ()


Sent: TypeAlias = tuple[TopicPartition, int, int, Delivery | Batch | Copies | None]
"""The records that the mirror has sent for one or more source offsets, as a tuple of four items:

- the source partition,
- the first source offset,
- the position in the source partition that the mirror reaches when the target cluster has confirmed the
  records,
- the records that were sent: a Delivery for one record, Copies for several records, the producer's new Batch
  if a whole batch was sent, or None if nothing was sent.
"""


class ConfirmedRecords(NamedTuple):
    """Records of one source partition that the target cluster has stored one after the other.

    Their offsets are consecutive: from ``offset`` on in ``source``, and from ``target_offset`` on in
    ``target``. ``target_offset`` is -1 if the target cluster does not tell it (``acks=0``).
    """

    source: TopicPartition
    offset: int
    target: TopicPartition
    target_offset: int
    record_count: int


class FailedRecords(NamedTuple):
    """Records of one source partition that could not be delivered to the target cluster. Their offsets begin
    with ``offset``."""

    source: TopicPartition
    offset: int
    record_count: int
    error: KafkaError


class _Run:
    """Records that were sent one after the other. *position* is the mirror's position in the source partition
    after all of them are confirmed."""

    __slots__ = ("_copies", "position")

    def __init__(self, copies: Copies, position: int) -> None:
        self._copies = copies
        self.position = position

    @property
    def done(self) -> bool:
        """True if all records have a result."""
        return all(batch.done for batch, _, _ in self._copies.runs)

    def extend(self, copies: Copies, position: int) -> bool:
        """Add *copies* to this run, set its *position*, and return True. This is possible only if the run has
        one batch, and the copies directly follow its records in the source partition and in this batch.
        Otherwise add nothing, and return False."""
        before, runs = self._copies.offsets, self._copies.runs
        after, (batch, first, stop) = copies.offsets, copies.runs[0]
        if not (
            len(copies.runs) == len(runs) == 1
            and runs[0][0] is batch
            and runs[0][2] == first
            and isinstance(before, range)
            and isinstance(after, range)
            and before.stop == self.position == after.start < position
        ):
            return False
        self._copies = Copies(range(before.start, after.stop), [(batch, runs[0][1], stop)])
        self.position = position
        return True

    def results(
        self, source: TopicPartition, confirmed: list[ConfirmedRecords] | None
    ) -> list[FailedRecords]:
        """Return the failed records of the run. Add its confirmed records to the list *confirmed* if one is
        given. *source* is the source partition of the run. All records must have a result."""
        failed: list[FailedRecords] = []
        for batch, first, stop in self._copies.runs:
            batch.mark_seen(first, stop)
            for report in batch.reports(first, stop):
                if report.error is None and confirmed is None:
                    continue
                offsets = self._offsets(batch.partition)[report.first - first : report.stop - first]
                if report.error is not None:
                    failed.append(FailedRecords(source, offsets[0], len(offsets), report.error))
                elif confirmed is not None:
                    target = TopicPartition(batch.topic, batch.partition)
                    confirmed += _confirmed(source, offsets, target, report.base_offset)
        return sorted(failed, key=_offset_of)

    def _offsets(self, target: int) -> Sequence[int]:
        """Return the source offsets of the records in the target partition with the number *target*."""
        offsets, _, targets = self._copies
        if not targets:
            return offsets
        return [offset for offset, each in zip(offsets, targets, strict=True) if each == target]


class SentRecords:
    """The records of the assigned source partitions that were sent and are not confirmed yet. Only one thread
    uses this object.

    The position of a partition is the offset to commit: all records before it are confirmed. If *skip_failed*
    is true, the position moves past records that could not be delivered. Otherwise it stays before the first
    of them. Confirmed records are returned only if *tell_confirmed* is true.
    """

    def __init__(self, *, skip_failed: bool, tell_confirmed: bool) -> None:
        self._skip_failed = skip_failed
        self._tell_confirmed = tell_confirmed
        self._runs: dict[TopicPartition, deque[_Run]] = {}
        self._confirmed: dict[TopicPartition, int] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._failed: set[TopicPartition] = set()
        """The partitions with a failed record that is not skipped. The results of later records of these
        partitions are ignored."""

    def begin(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget the records and positions of *partitions*, because they are assigned again, or belong to
        another member now."""
        for each in partitions:
            self._runs.pop(each, None)
            self._confirmed.pop(each, None)
            self._committed.pop(each, None)
            self._failed.discard(each)

    def add(self, sent: Iterable[Sent]) -> None:
        """Add the records *sent*. The records of a partition must be in the order of their offsets."""
        runs: deque[_Run] = deque()
        last: TopicPartition | None = None
        for source, offset, position, delivery in sent:
            if source is not last:
                runs, last = self._runs.setdefault(source, deque()), source
            copies = _copies(offset, delivery)
            if not (copies.runs and runs and runs[-1].extend(copies, position)):
                runs.append(_Run(copies, position))

    def pop_done(self) -> tuple[list[ConfirmedRecords], list[FailedRecords]]:
        """Remove and return the records that are confirmed, and the records that have failed. The records of
        a partition are in the order of their offsets. Records behind an unconfirmed record of the same
        partition are not removed yet. If failed records are not skipped, the first failure of a partition is
        returned once, and the results of later records of the partition are ignored."""
        confirmed: list[ConfirmedRecords] = []
        failed: list[FailedRecords] = []
        for source, runs in self._runs.items():
            while runs and runs[0].done and source not in self._failed:
                errors = runs[0].results(source, confirmed if self._tell_confirmed else None)
                failed += errors
                if errors and not self._skip_failed:
                    self._failed.add(source)
                    self._confirmed[source] = errors[0].offset
                    break
                self._confirmed[source] = runs.popleft().position
        return confirmed, failed

    def positions(self, partitions: Collection[TopicPartition] | None = None) -> dict[TopicPartition, int]:
        """Return the positions that are not committed yet. The position of a partition is the offset before
        which all records are confirmed. With *partitions*, return only the positions of these partitions."""
        return {
            source: position
            for source, position in self._confirmed.items()
            if self._committed.get(source) != position and (partitions is None or source in partitions)
        }

    def unfinished(self, partitions: Collection[TopicPartition] | None = None) -> set[TopicPartition]:
        """Return the partitions with records that are not confirmed, or whose position is not committed. With
        *partitions*, consider only these partitions."""
        waiting = {source for source, runs in self._runs.items() if runs}
        return {each for each in waiting.union(self.positions()) if partitions is None or each in partitions}

    def committed(self, positions: dict[TopicPartition, int]) -> None:
        """Remember that *positions* are committed."""
        self._committed.update(positions)


def _copies(offset: int, sent: Delivery | Batch | Copies | None) -> Copies:
    """Return the records that were sent, in the form of a Copies. *sent* is one of the forms that ``Sent``
    describes, and *offset* is the first source offset."""
    if sent is None:
        return Copies(range(offset, offset), [])
    if isinstance(sent, Copies):
        return sent
    if isinstance(sent, Batch):
        return Copies(range(offset, offset + sent.count), [(sent, 0, sent.count)])
    batch, index = sent.batch_and_index
    return Copies(range(offset, offset + 1), [(batch, index, index + 1)])


def _confirmed(
    source: TopicPartition, offsets: Sequence[int], target: TopicPartition, target_offset: int
) -> Iterator[ConfirmedRecords]:
    """Yield the records that have *offsets* in the partition *source*, and are stored one after another from
    *target_offset* on in *target*. Each yielded object has records without a gap in their source offsets."""
    ends = [len(offsets)]
    if offsets[-1] - offsets[0] >= len(offsets):
        ends = [at for at in range(1, len(offsets)) if offsets[at] != offsets[at - 1] + 1] + ends
    first = 0
    for stop in ends:
        known = target_offset if target_offset < 0 else target_offset + first
        yield ConfirmedRecords(source, offsets[first], target, known, stop - first)
        first = stop


def _offset_of(failed: FailedRecords) -> int:
    return failed.offset
