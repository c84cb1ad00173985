"""How far handlers have come in one partition: which messages they have in hand, and which are completed."""

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator

from pyklient.consumer.owned_partitions import OwnedPartition
from pyklient.consumer.parallel import completed_offsets
from pyklient.consumer.stream.consumed_positions import Position
from pyklient.kernel import Message

__all__ = ["PartitionProgress"]


class PartitionProgress:
    """The messages of one partition that are in hand, as long as the client owns the partition.

    A message is in hand from the moment it is read until its handler has returned. Everything before the
    first message in hand is completed. Later messages that are completed are listed in the metadata of the
    commit, and the next owner of the partition does not hand them out again. The stream's lock must be held.
    """

    def __init__(self, owned: OwnedPartition) -> None:
        self.owned = owned
        self.held: deque[Message] = deque()
        """Messages that no handler may have yet, because there are too many offsets between them and the
        first message in hand. The metadata of a commit could not tell that they are completed."""
        self._in_hand: OrderedDict[int, None] = OrderedDict()
        self._begun = False
        start = owned.committed
        self._remembered = deque(
            () if start is None else completed_offsets.decode(start.offset, start.metadata)
        )

    def begin(self, messages: Iterable[Message]) -> Iterator[Message]:
        """Yield those of *messages* that are to be handled, and count them as in hand.

        Messages that the metadata of the committed offset names as completed are left out.
        """
        remembered = self._remembered
        for message in messages:
            if not self._begun:
                self._begun = True
                start = self.owned.committed
                if start is not None and message.offset < start.offset:
                    remembered.clear()  # the log was emptied, or the topic created again: these are others
            while remembered and remembered[0].stop <= message.offset:
                remembered.popleft()
            if not (remembered and message.offset in remembered[0]):
                self._in_hand[message.offset] = None
                yield message

    def may_start(self, offset: int) -> bool:
        """Return True if the metadata of a commit will have space to list the message at *offset* as
        completed."""
        first = next(iter(self._in_hand))
        last = self._remembered[-1].stop if self._remembered else offset
        gaps = len(self._in_hand) + len(self._remembered)
        return offset == first or completed_offsets.fits(max(offset, last) + 1 - first, gaps)

    def complete(self, offset: int) -> None:
        """Record that the handler of the message at *offset* has returned."""
        del self._in_hand[offset]

    def position(self, read: Position) -> Position:
        """Return the position to commit. *read* is the position up to which messages have been read."""
        first = next(iter(self._in_hand), read.offset)
        completed = [run for run in self._completed(read.offset) if run]
        return read._replace(offset=first, metadata=completed_offsets.encode(first, completed))

    def _completed(self, end: int) -> Iterator[range]:
        """Yield the completed offsets after the first message in hand. *end* is the next offset to read."""
        in_hand = iter(self._in_hand)
        before = next(in_hand, end)
        for offset in in_hand:
            yield range(before + 1, offset)
            before = offset
        yield range(before + 1, end)
        for run in self._remembered:
            yield range(max(run.start, end), run.stop)
