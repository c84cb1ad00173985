"""The positions of streams that the program saves in an offset store, in the transactions that store its
results."""

from collections.abc import Collection, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from pyklient.consumer.fetch.consumed_positions import Position
from pyklient.consumer.offsets.offset_storage import Rejections
from pyklient.consumer.owned_partitions import MemberIdentity
from pyklient.consumer.stream.stream_core import StreamCore
from pyklient.errors import (
    ConfigurationError,
    KafkaError,
    OffsetStoreFencedError,
    PartitionNotAssignedError,
)
from pyklient.offset_stores.offset_store import OffsetStore, PositionChange, StoredPosition
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition

__all__ = ["SavedPositions", "no_commits"]


class SavedPositions:
    """An OffsetStorage that commits nothing, because the program saves the positions itself.

    This object acquires partitions in *store* for the group *group_id*. A position is saved only if the
    stored epoch is the one with which this connector has acquired the partition, and if the stored offset is
    the one at which the messages of the transaction begin. So the results of each message are stored by
    exactly one transaction, in whatever order members acquire partitions and save. If a save fails although
    the member owns the partition, ``rewind`` acquires the partition again.
    """

    def __init__(self, store: OffsetStore, group_id: str) -> None:
        self._store = store
        self._group_id = group_id
        self._streams: WeakKeyDictionary[StreamCore, _StreamPositions] = WeakKeyDictionary()

    def acquire(self, starts: Mapping[TopicPartition, int | None]) -> dict[TopicPartition, StoredPosition]:
        """Acquire partitions in the store, and return their stored positions. A partition without a stored
        offset gets its offset in *starts*."""
        return dict(self._store.acquire(self._group_id, starts)) if starts else {}

    def begin(self, stream: StreamCore, stored: Mapping[TopicPartition, StoredPosition]) -> None:
        """Save positions of *stream* under the epochs in *stored* from now on.

        If the stream has handed out messages of such a partition before, and their results are not stored,
        the next transaction may contain these results. So nothing is saved before :meth:`rewind`.
        """
        handed = _handed(stream)
        for each, position in stored.items():
            before = handed.get(each)
            outdated = before is not None and position.offset not in (before.offset, before.after_message)
            self._of(stream).acquired[each] = _Acquired(position, outdated=outdated)

    def save(self, transaction: Any, stream: StreamCore) -> None:
        """Save the positions of *stream* in *transaction*, including the message or batch in hand.

        Raises OffsetStoreFencedError if a position must not be saved.
        """
        ours = self._of(stream)
        asks, handed = stream.asks, _handed(stream)
        if outdated := [each for each in handed if each in ours.acquired and ours.acquired[each].outdated]:
            raise _fenced(outdated, "the partitions were assigned again before these messages were saved")
        if ours.last is not None and (ours.last.asks, ours.last.handed) == (asks, handed):
            changes = ours.last.changes  # the same transaction again, because it was rolled back
        else:
            changes = ours.changes(handed)
        rejected = self._store.save(transaction, self._group_id, changes) if changes else ()
        if rejected:
            raise _fenced(
                rejected,
                "another member has acquired the partitions, or the stored offset is not the one at which "
                "these messages begin, for instance because an earlier transaction was rolled back",
            )
        for each, change in changes.items():
            ours.acquired[each].begins = change.offset
        ours.last = _Save(asks, handed, changes)

    def note_move(self, stream: StreamCore, partition: TopicPartition, offset: int) -> None:
        """Record that the program has called ``seek`` or ``redeliver``, so that *stream* continues
        *partition* at *offset*, which may be before messages that were handed out already."""
        acquired = self._of(stream).acquired.get(partition)
        if acquired is not None and acquired.begins is not None:
            acquired.begins = min(acquired.begins, offset)

    def fetch(
        self, partitions: Collection[TopicPartition], timeout: float
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Raise ConfigurationError: a partition is acquired together with its position."""
        raise no_commits()

    def commit(
        self,
        positions: Mapping[TopicPartition, OffsetAndMetadata],
        identity: MemberIdentity,
        timeout: float,
        *,
        once: bool = False,
    ) -> Rejections:
        """Raise ConfigurationError: positions are saved by the program."""
        raise no_commits()

    def commit_async(
        self, positions: Mapping[TopicPartition, OffsetAndMetadata], identity: MemberIdentity
    ) -> "Future[Rejections] | None":
        """Return None, because positions are saved by the program."""
        return None

    def unreachable(self) -> KafkaError | None:
        """Return None, because the store is asked only when partitions are acquired."""
        return None

    def stop_retrying(self) -> None:
        """Do nothing, because this object never tries again."""

    def rewind(self, stream: StreamCore) -> None:
        """Acquire the partitions that *stream* reads again, and continue them at their stored offsets.

        Forget the positions of partitions that the stream does not read any more.
        """
        cursors, ours = stream.cursors, self._of(stream)
        stored = self.acquire(dict.fromkeys(sorted(cursors)))
        stream.forget({each: at.generation for each, at in _handed(stream).items() if each not in cursors})
        ours.last = None
        for each, position in stored.items():
            mine = ours.acquired[each] = _Acquired(position)
            if position.offset is not None:
                with suppress(PartitionNotAssignedError):
                    stream.seek(each, position.offset)
            if ours.acquired[each] is not mine:
                # The partition was assigned again meanwhile, perhaps with another stored offset.
                ours.acquired[each].outdated = True

    def _of(self, stream: StreamCore) -> "_StreamPositions":
        return self._streams.setdefault(stream, _StreamPositions())


class _Acquired:
    """A partition as its stream has acquired it in the offset store."""

    __slots__ = ("begins", "epoch", "outdated")

    def __init__(self, stored: StoredPosition, *, outdated: bool = False) -> None:
        self.epoch = stored.epoch
        self.begins = stored.offset
        """The offset at which the messages of the next transaction begin. The store must have this offset
        when that transaction saves a position."""
        self.outdated = outdated
        """True if the next transaction may contain results of messages that were handed out before the
        partition was acquired."""


class _Save(NamedTuple):
    """A save of a stream: how often its loops had asked for messages, the positions that it had handed out,
    and the changes in the store."""

    asks: int
    handed: Mapping[TopicPartition, Position]
    changes: Mapping[TopicPartition, PositionChange]


class _StreamPositions:
    """The partitions that one stream has acquired, and its last save."""

    def __init__(self) -> None:
        self.acquired: dict[TopicPartition, _Acquired] = {}
        self.last: _Save | None = None

    def changes(self, handed: Mapping[TopicPartition, Position]) -> dict[TopicPartition, PositionChange]:
        """Return the changes from the stored offsets to those in *handed*."""
        changes: dict[TopicPartition, PositionChange] = {}
        for each, position in handed.items():
            acquired = self.acquired.get(each)
            if acquired is None or acquired.begins is None:
                raise _fenced([each], "this stream has not acquired the partition")
            if acquired.begins not in (position.offset, position.after_message):
                changes[each] = PositionChange(acquired.epoch, acquired.begins, position.offset)
        return changes


def no_commits() -> ConfigurationError:
    """Return the error for calls that need committed offsets."""
    return ConfigurationError(
        "this connector has an offset_store, so it has no committed offsets and commits none; call "
        "save_offsets(transaction) of the stream in the transaction that stores the results, and read "
        "positions in the store"
    )


def _handed(stream: StreamCore) -> dict[TopicPartition, Position]:
    return {each: position for each, position in stream.handed(in_hand=True).items() if position.read}


def _fenced(partitions: Collection[TopicPartition], why: str) -> OffsetStoreFencedError:
    names = ", ".join(map(str, sorted(partitions)))
    return OffsetStoreFencedError(
        f"the positions of {names} were not saved, because {why}. Let this error roll the transaction back, "
        "then call rewind() of the stream, which continues at the stored positions"
    )
