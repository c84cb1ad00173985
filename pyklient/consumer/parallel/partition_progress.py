"""The progress of handlers in one partition: which messages they have in hand, and which are completed."""

from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator

from pyklient.consumer.consumed_positions import Position
from pyklient.consumer.owned_partitions import OwnedPartition
from pyklient.consumer.parallel import completed_offsets
from pyklient.kernel import Message

__all__ = ["PartitionProgress"]


class PartitionProgress:
    """The messages of one partition that are in hand, as long as the client owns the partition.

    A message is in hand from the moment it is read until its handler has returned. Everything before the
    first message in hand is completed. Later messages that are completed are listed in the metadata of the
    commit, and the next owner of the partition does not hand them out again. The stream's lock must be held.
    """

    def __init__(self, owned: OwnedPartition, before: "PartitionProgress | None" = None) -> None:
        """*before* is the progress of the partition in the previous assignment, or None. It is used only if
        the client has owned the partition all the time since then."""
        self.owned = owned
        self.held: deque[Message] = deque()
        """Messages that no handler gets yet, because their offsets are too far above that of the first
        message in hand: the metadata of a commit would have no space to list them as completed."""
        self._in_hand: OrderedDict[int, Message] = OrderedDict()
        self._next = owned.start or 0
        """The offset after the last message that was read."""
        if before is not None and owned.reached is not None:
            remembered = before._completed_from(owned.reached)
        elif owned.committed is not None:
            remembered = completed_offsets.decode(owned.committed.offset, owned.committed.metadata)
        else:
            remembered = []
        self._remembered = deque(remembered)

    def begin(self, messages: Iterable[Message]) -> Iterator[Message]:
        """Yield the *messages* that are to be handled, and count them as in hand.

        Messages that are known to be completed are left out.
        """
        remembered = self._remembered
        for message in messages:
            if message.offset < self._next:
                # The log was emptied, or the topic created again: these messages are others.
                remembered.clear()
                self._forget_from(message.offset)
            self._next = message.offset + 1
            while remembered and remembered[0].stop <= message.offset:
                remembered.popleft()
            if not (remembered and message.offset in remembered[0]):
                self._in_hand[message.offset] = message
                yield message

    def may_start(self, offset: int) -> bool:
        """Return True if the metadata of a commit will have space to list the message at *offset* as
        completed."""
        first = next(iter(self._in_hand), offset)
        last = self._remembered[-1].stop if self._remembered else offset
        gaps = len(self._in_hand) + len(self._remembered)
        return offset == first or completed_offsets.fits(max(offset, last) + 1 - first, gaps)

    def complete(self, message: Message) -> None:
        """Remember that the handler of *message* has returned.

        Do nothing if the offset was read again meanwhile: the message that was read there later is still in
        hand.
        """
        if self._in_hand.get(message.offset) is message:
            del self._in_hand[message.offset]

    def position(self, read: Position) -> Position:
        """Return the position to commit. *read* is the position up to which messages have been read."""
        first = next(iter(self._in_hand), read.offset)
        completed = [run for run in self._completed(read.offset) if run]
        return read._replace(offset=first, metadata=completed_offsets.encode(first, completed))

    def _forget_from(self, offset: int) -> None:
        """Stop counting the messages from *offset* on as in hand, because reading continues at *offset*."""
        for each in [each for each in self._in_hand if each >= offset]:
            del self._in_hand[each]

    def _completed_from(self, start: int) -> list[range]:
        """Return the offsets from *start* on that are completed now."""
        first = next(iter(self._in_hand), self._next)
        return [run for run in (range(start, first), *self._completed(self._next)) if run]

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
