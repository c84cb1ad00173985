"""An offset storage for programs that save the positions of their streams in an offset store, together with
their results."""

from collections.abc import Collection, Mapping
from concurrent.futures import Future
from typing import Any, Final
from weakref import WeakKeyDictionary

from pyklient.consumer.commit.offset_storages.acquired_partitions import (
    Acquired,
    AcquiredPartitions,
    Save,
    fenced,
)
from pyklient.consumer.commit.offset_storages.offset_storage import Rejections
from pyklient.consumer.consumed_positions import Position
from pyklient.consumer.owned_partitions import MemberIdentity
from pyklient.consumer.stream.stream_core import StreamCore
from pyklient.errors import (
    ConfigurationError,
    KafkaError,
    KafkaTimeoutError,
    PartitionNotAssignedError,
)
from pyklient.offset_stores.offset_store import OffsetStore, PositionChange, StoredPosition
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["SavedPositions", "no_commits"]

_OFTEN: Final = 3
_MANY_TIMES: Final = (
    ". This is save number {} in a row that was rejected. If two programs read the same partitions with "
    "assign(), each fences the other one: give them different partitions, or a group_id each"
)
_DURING_REWIND: Final = "the partitions were assigned again during rewind()"


class SavedPositions:
    """An OffsetStorage that commits nothing, because the program saves the positions itself.

    This object acquires partitions in *store* for the group *group_id*. Each acquisition of a partition
    raises the epoch that is stored with its position. A position is saved only if two conditions hold: the
    stored epoch is the one with which this connector has acquired the partition, and the messages of the
    transaction begin at the stored offset. So exactly one transaction stores the results of each message, in
    whatever order members acquire partitions and save. If a save fails although the member owns the
    partition, ``rewind`` acquires the partition again.
    """

    def __init__(self, store: OffsetStore, group_id: str) -> None:
        self._store = store
        self._group_id = group_id
        self._streams: WeakKeyDictionary[StreamCore, AcquiredPartitions] = WeakKeyDictionary()

    def acquire(self, starts: Mapping[TopicPartition, int | None]) -> dict[TopicPartition, StoredPosition]:
        """Acquire the partitions in *starts* in the store, and return their stored positions. A partition
        without a stored offset gets its offset in *starts*.

        An exception of the store whose attribute ``retriable`` is true becomes a KafkaTimeoutError.
        """
        if not starts:
            return {}
        try:
            found = self._store.acquire(self._group_id, starts)
        except Exception as error:
            if isinstance(error, KafkaError) or not getattr(error, "retriable", False):
                raise
            raise KafkaTimeoutError(f"the offset store could not be asked: {error}") from error
        return {each: _checked(found, each, start) for each, start in starts.items()}

    def begin(self, stream: StreamCore, stored: Mapping[TopicPartition, StoredPosition]) -> None:
        """Prepare to save positions of *stream* under the epochs in *stored*.

        The stream may already have handed out messages of one of these partitions. If it is not certain that
        their results are stored, the next transaction may contain these results, although another member may
        have stored them too. In this case, :meth:`save` raises OffsetStoreFencedError until :meth:`rewind` is
        called.
        """
        self._of(stream).begin(stored, _handed(stream))

    def save(self, transaction: Any, stream: StreamCore) -> None:
        """Save the positions of *stream* in *transaction*, including the message or batch in hand.

        Raises OffsetStoreFencedError if a position must not be saved.
        """
        ours = self._of(stream)
        with ours.lock:
            asks, handed, last = stream.asks, _handed(stream), ours.last
            if last is not None and (last.asks, last.handed) == (asks, handed):
                save = last  # the same transaction again, because it was rolled back
            else:
                save = Save(asks, handed, ours.changes(handed, stream.cursors))
            if rejected := self._rejected(transaction, save.changes):
                ours.rejected += 1
                raise fenced(
                    rejected,
                    "another member has acquired the partitions, or these messages do not begin at the "
                    "stored offset (perhaps an earlier transaction was rolled back, or this transaction has "
                    "saved the positions already)",
                    _MANY_TIMES.format(ours.rejected) if ours.rejected >= _OFTEN else "",
                )
            if save is not last:
                ours.saved(save)
            ours.rejected = 0

    def _rejected(
        self, transaction: Any, changes: Mapping[TopicPartition, PositionChange]
    ) -> Collection[TopicPartition]:
        """Make *changes* in *transaction*. Return the partitions that were not changed."""
        if not changes:
            return ()
        rejected = self._store.save(transaction, self._group_id, changes)
        if not isinstance(rejected, Collection):  # None would look as if all were changed
            raise ConfigurationError(
                f"save() of the offset store returned {rejected!r}, but must return the partitions that it "
                "has not changed, and an empty list if it has changed all of them. Let this error roll the "
                "transaction back, and correct the method"
            )
        return rejected

    def seek(self, stream: StreamCore, partition: TopicPartition, offset: int) -> None:
        """Continue *partition* at *offset*, because the program has called ``seek``.

        If the store has no offset of the partition yet, store *offset* there. If messages at or after
        *offset* were handed out, and the positions after them are not saved yet, the program's open
        transaction may contain their results. In this case, :meth:`save` raises an error until :meth:`rewind`
        is called.
        """
        ours = self._of(stream)
        with ours.lock:
            stream.cursor(partition)  # which raises an error if the stream does not read the partition
            if (acquired := ours.of.get(partition)) is not None and acquired.begins is None:
                ours.replace({partition: Acquired(self.acquire({partition: offset})[partition])})
            before = stream.seek(partition, offset)
            if (acquired := ours.of.get(partition)) is not None:
                acquired.seek(before if before is not None and before.read else None, offset)

    def redeliver(self, stream: StreamCore) -> None:
        """Make *stream* hand out its message or batch in hand once more."""
        ours = self._of(stream)
        with ours.lock:
            before = _handed(stream)
            stream.redeliver()
            ours.last = None  # the next save belongs to another transaction
            for each, position in _handed(stream).items():
                if each in before and each in ours.of and position.offset < before[each].offset:
                    ours.of[each].go_back(position.offset)

    def fetch(
        self, partitions: Collection[TopicPartition], timeout: float
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Raise ConfigurationError, because the positions are in the offset store, and :meth:`acquire`
        returns them."""
        raise no_commits()

    def commit(
        self,
        positions: Mapping[TopicPartition, OffsetAndMetadata],
        identity: MemberIdentity,
        timeout: float,
        *,
        once: bool = False,
    ) -> Rejections:
        """Raise ConfigurationError, because the program saves the positions itself."""
        raise no_commits()

    def commit_async(
        self, positions: Mapping[TopicPartition, OffsetAndMetadata], identity: MemberIdentity
    ) -> "Future[Rejections] | None":
        """Return None, because the program saves the positions itself."""
        return None

    def unreachable(self) -> KafkaError | None:
        """Return None. If the store cannot be reached, :meth:`acquire` and :meth:`save` raise an error."""
        return None

    def stop_retrying(self) -> None:
        """Do nothing, because this object never tries again."""

    def rewind(self, stream: StreamCore) -> None:
        """Acquire all partitions of *stream* once more, and continue them at their stored offsets.

        Forget the positions of partitions that the stream no longer reads.
        """
        ours = self._of(stream)
        stored = self.acquire(dict.fromkeys(sorted(stream.cursors)))
        with ours.lock:
            ours.last = None
            gone = _handed(stream).keys() - stored.keys()
            for each, position in stored.items():
                if (newer := ours.of.get(each)) is not None and newer.epoch > position.epoch:
                    continue  # assigned again meanwhile, and read from its stored offset
                mine = Acquired(position)
                ours.replace({each: mine})
                try:
                    if position.offset is not None:
                        stream.seek(each, position.offset)
                except PartitionNotAssignedError:
                    gone.add(each)
                if (newer := ours.of[each]) is not mine:
                    newer.outdated = _DURING_REWIND  # perhaps with another stored offset
            handed = _handed(stream)
            stream.forget({each: handed[each].generation for each in gone if each in handed})

    def _of(self, stream: StreamCore) -> AcquiredPartitions:
        return self._streams.setdefault(stream, AcquiredPartitions())


def no_commits() -> ConfigurationError:
    """Return the error for calls that commit offsets, or need committed offsets, although the connector has
    an offset store."""
    return ConfigurationError(
        "this connector has an offset_store, so it has no committed offsets and commits none; call "
        "save_offsets(transaction) of the stream in the transaction that stores the results, and read "
        "positions in the store"
    )


def _checked(found: Any, partition: TopicPartition, start: int | None) -> StoredPosition:
    """Return the position of *partition* in *found*, the result of ``acquire`` of an offset store. *start* is
    the offset that was passed to ``acquire``, for the case that the store had none. Raises ConfigurationError
    if *found* has no valid position."""
    position = found.get(partition) if isinstance(found, Mapping) else None
    match position:
        case (int() as offset, int() as epoch) if offset >= 0:
            return StoredPosition(offset, epoch)
        case (None, int() as epoch) if start is None:
            return StoredPosition(None, epoch)
    raise ConfigurationError(
        f"acquire() of the offset store returned {position!r} for {partition}, but must return a mapping "
        "with a StoredPosition for each partition. Its offset must be 0 or more, or None if neither the "
        "store nor the caller has an offset"
    )


def _handed(stream: StreamCore) -> dict[TopicPartition, Position]:
    return {each: position for each, position in stream.handed(in_hand=True).items() if position.read}
