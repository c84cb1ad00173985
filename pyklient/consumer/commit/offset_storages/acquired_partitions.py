"""The partitions that one stream has acquired in an offset store, and the positions that the program has
saved there.

A transaction of the program may be rolled back after its save, and the stream does not learn of that. So a
save is *unconfirmed* at first. It is confirmed when the store turns out to have one of the saved offsets.
This happens when a later save replaces such an offset, or compares it with the stored one. It also happens
when the stream acquires the partition again, if nobody else has acquired the partition in between.
"""

import threading
from collections.abc import Collection, Mapping
from typing import Final

from pyklient.consumer.consumed_positions import Position
from pyklient.consumer.locks import new_saving_lock
from pyklient.errors import OffsetStoreFencedError
from pyklient.offset_stores.offset_store import PositionChange, StoredPosition
from pyklient.topic_partition import TopicPartition

__all__ = ["Acquired", "AcquiredPartitions", "Save", "fenced"]

_AFTER_REBALANCE: Final = (
    "the partitions were assigned again before these messages were saved, or before it was certain that the "
    "last transaction had been committed"
)
_AFTER_SEEK: Final = "seek() went back before the messages that were read had been saved"

_BEFORE_STORED: Final = (
    "the messages are before the stored positions, perhaps because the topic was created again; call reset() "
    "of the store to read them"
)


class Save:
    """A call of ``save_offsets`` of a stream. *asks* is the number of times that the stream's loops had asked
    for messages before the call. *handed* has the positions up to which the stream had handed out messages.
    *changes* has the changes of stored positions that the call has made."""

    __slots__ = ("asks", "changes", "confirmed", "handed")

    def __init__(
        self,
        asks: int,
        handed: Mapping[TopicPartition, Position],
        changes: Mapping[TopicPartition, PositionChange],
    ) -> None:
        self.asks = asks
        self.handed = handed
        self.changes = changes
        self.confirmed = False
        """True when it is certain that the transaction was committed."""


class Acquired:
    """A partition that its stream has acquired in the offset store, and the position saved for it."""

    __slots__ = ("begins", "done", "epoch", "outdated", "save")

    def __init__(self, stored: StoredPosition) -> None:
        self.epoch = stored.epoch
        self.begins = stored.offset
        """The offset at which the messages of the next transaction begin. The store must have this offset
        when that transaction saves a position."""
        self.done = stored.offset
        """The position that the stream had when all messages that it had handed out were saved for the last
        time."""
        self.save: Save | None = None
        """The save that has stored ``begins``, the offset at which the next transaction begins. None if this
        offset was stored before the partition was acquired."""
        self.outdated: str | None = None
        """The reason why the store must reject the next transaction. None if the store may accept it."""

    @property
    def certain(self) -> bool:
        """True if it is certain that the transaction that has stored the offset ``begins`` was committed."""
        return self.save is None or self.save.confirmed

    def all_saved(self, position: Position) -> bool:
        """Return True if all messages that were handed out before *position* were saved."""
        return self.done in (position.offset, position.after_message)

    def seek(self, before: Position | None, offset: int) -> None:
        """Remember that reading continues at *offset*. *before* is the old position, or None without one."""
        back = before is not None and offset < before.offset
        if before is None or (self.all_saved(before) and (self.certain or not back)):
            self.go_back(offset)
            self.done = offset
        elif back:
            self.outdated = _AFTER_SEEK

    def go_back(self, offset: int) -> None:
        """Remember that the messages from *offset* on are handed out again."""
        if self.begins is not None and offset < self.begins:
            self.begins, self.save = offset, None
        if self.done is not None and offset < self.done:
            self.done = offset


class AcquiredPartitions:
    """The partitions that one stream has acquired, and its last save."""

    def __init__(self) -> None:
        self.of: Mapping[TopicPartition, Acquired] = {}
        """The state of each partition. When partitions are acquired, a new mapping replaces this one, so that
        a thread can iterate over the old mapping meanwhile."""
        self.last: Save | None = None
        self.rejected = 0
        """The number of saves in a row that the store has rejected."""
        self.lock: threading.RLock = new_saving_lock()

    def begin(
        self, stored: Mapping[TopicPartition, StoredPosition], handed: Mapping[TopicPartition, Position]
    ) -> None:
        """Remember that the partitions in *stored* were assigned to the stream and acquired. *handed* has the
        positions up to which the stream had handed out messages before that.

        The next transaction may still contain results of those earlier messages, although another member may
        have stored them meanwhile. Partitions for which this is possible are marked as outdated: the
        offset store then rejects the next transaction.
        """
        before = {each: old for each in stored if (old := self.of.get(each)) is not None}
        new: dict[TopicPartition, Acquired] = {}
        for each, old in before.items():
            alone = stored[each].epoch == old.epoch + 1
            if old.save is not None and alone and stored[each].offset == old.begins:
                old.save.confirmed = True
        for each, position in stored.items():
            acquired = Acquired(position)
            if each in handed and not _goes_on(before.get(each), handed[each], position):
                acquired.outdated = _AFTER_REBALANCE
            new[each] = acquired
        self.replace(new)

    def replace(self, acquired: Mapping[TopicPartition, Acquired]) -> None:
        """Remember that the partitions in *acquired* were acquired again."""
        self.of = {**self.of, **acquired}

    def changes(
        self, handed: Mapping[TopicPartition, Position], reads: Collection[TopicPartition]
    ) -> dict[TopicPartition, PositionChange]:
        """Return the changes from the stored offsets to the positions in *handed*.

        It is certain that the transaction of the last save was committed if the store accepts a change of an
        offset that this save has stored. If there is no such change, the result gets one more, which replaces
        an offset by itself. The partition of this change is one of *reads*, the partitions that the stream
        reads now, if possible. Raises OffsetStoreFencedError if the results of the messages must not be
        stored.
        """
        of = self.of
        changes: dict[TopicPartition, PositionChange] = {}
        unconfirmed: list[TopicPartition] = []
        for each, position in handed.items():
            acquired = of.get(each)
            if acquired is None or acquired.begins is None:
                raise fenced([each], "the store does not know yet that this stream reads the partition")
            if acquired.outdated is not None:
                raise fenced([each], acquired.outdated)
            if position.offset < acquired.begins:
                raise fenced([each], _BEFORE_STORED)
            if acquired.begins not in (position.offset, position.after_message):
                changes[each] = PositionChange(acquired.epoch, acquired.begins, position.offset)
            if not acquired.certain:
                unconfirmed.append(each)
        if unconfirmed and not changes.keys() & unconfirmed:
            each = min(unconfirmed, key=lambda one: (one not in reads, one))
            acquired = of[each]
            assert acquired.begins is not None
            changes[each] = PositionChange(acquired.epoch, acquired.begins, acquired.begins)
        return changes

    def saved(self, save: Save) -> None:
        """Remember that the store has accepted *save*, in a transaction that may still be rolled back."""
        for each, change in save.changes.items():
            acquired = self.of[each]
            if acquired.epoch != change.epoch:
                continue  # acquired again meanwhile
            if acquired.save is not None:
                acquired.save.confirmed = True
            if change.offset != change.replaced:
                acquired.begins = acquired.done = change.offset
                acquired.save = save
        self.last = save


def fenced(partitions: Collection[TopicPartition], why: str, hint: str = "") -> OffsetStoreFencedError:
    """Return the error for *partitions* whose positions were not saved. Its text gives the reason *why*, and
    ends with *hint*."""
    names = ", ".join(map(str, sorted(partitions)))
    return OffsetStoreFencedError(
        f"the positions of {names} were not saved, because {why}. Let this error roll the transaction back, "
        f"then call rewind() of the stream, or read() again, to continue at the stored positions{hint}"
    )


def _goes_on(old: Acquired | None, handed: Position, stored: StoredPosition) -> bool:
    """Return True if the position *stored*, with which a partition was acquired again, follows on the
    messages that were handed out: all of them, up to the position *handed*, are certainly saved, and *stored*
    has the same offset. *old* is the state of the partition before, or None if the stream had not acquired
    it."""
    return (
        old is not None
        and old.outdated is None
        and old.certain
        and old.all_saved(handed)
        and stored.offset in (handed.offset, handed.after_message)
    )
