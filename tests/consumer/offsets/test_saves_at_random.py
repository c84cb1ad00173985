"""Random programs, rebalances and failed transactions, with an offset store in memory and streams without
brokers: no message is stored twice, and none is left out."""

from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any, NamedTuple

import pytest

from pyklient.consumer.commit.offset_storages.saved_positions import SavedPositions
from pyklient.consumer.consumed_positions import Position
from pyklient.errors import OffsetStoreFencedError, PartitionNotAssignedError
from pyklient.offset_stores import PositionChange, StoredPosition
from pyklient.topic_partition import TopicPartition
from tests.run.seed import dice

PARTITIONS = [TopicPartition("t", number) for number in range(3)]
LAST = 25
"""The number of messages of each partition."""


class Content(NamedTuple):
    """What a database contains: the stored positions, and the offsets whose results were stored."""

    positions: dict[TopicPartition, StoredPosition]
    results: list[tuple[TopicPartition, int]]

    def copy(self) -> "Content":
        return Content(dict(self.positions), list(self.results))


class Database:
    """An offset store in memory. Its transaction is a copy of the content, which replaces the content."""

    def __init__(self) -> None:
        self.content = Content({}, [])

    def acquire(
        self, group_id: str, starts: Mapping[TopicPartition, int | None]
    ) -> dict[TopicPartition, StoredPosition]:
        for each in starts:
            offset, epoch = self.content.positions.get(each, StoredPosition(0, 0))
            self.content.positions[each] = StoredPosition(offset, epoch + 1)
        return {each: self.content.positions[each] for each in starts}

    def save(
        self, transaction: Content, group_id: str, changes: Mapping[TopicPartition, PositionChange]
    ) -> list[TopicPartition]:
        rejected = []
        for each, (epoch, replaced, offset) in changes.items():
            if transaction.positions[each] == (replaced, epoch):
                transaction.positions[each] = StoredPosition(offset, epoch)
            else:
                rejected.append(each)
        return rejected


class Stream:
    """The part of a StreamCore that positions are saved for."""

    def __init__(self) -> None:
        self.asks = 0
        self.cursors: dict[TopicPartition, int] = {}
        """The offset of the next message of each partition that is read."""
        self.batch: list[tuple[TopicPartition, int]] = []
        """The messages in hand."""
        self.assigned_since: set[TopicPartition] = set()
        """The partitions that were assigned since the loop has got the messages in hand."""
        self._handed: dict[TopicPartition, Position] = {}

    def next(self, random: Random) -> list[tuple[TopicPartition, int]]:
        """Return a batch of messages of the partitions that are read."""
        self.asks += 1
        self.batch, self.assigned_since = [], set()
        for _ in range(random.randrange(1, 4)):
            if left := [each for each in sorted(self.cursors) if self.cursors[each] < LAST]:
                partition = random.choice(left)
                self.batch.append((partition, self.cursors[partition]))
                self._note(partition, self.cursors[partition] + 1)
        return self.batch

    def handed(self, *, in_hand: bool) -> dict[TopicPartition, Position]:
        return dict(self._handed)

    def seek(self, partition: TopicPartition, offset: int) -> Position | None:
        if partition not in self.cursors:
            raise PartitionNotAssignedError(f"{partition} is not read")
        before = self._handed.get(partition)
        self._note(partition, offset)
        return before

    def cursor(self, partition: TopicPartition) -> int:
        return self.cursors[partition]

    def redeliver(self) -> None:
        for partition, offset in reversed(self.batch):
            if partition not in self.assigned_since:
                self._handed[partition] = Position(offset, 1)
                if partition in self.cursors:
                    self.cursors[partition] = offset

    def forget(self, partitions: Mapping[TopicPartition, int]) -> None:
        for each in partitions:
            self._handed.pop(each, None)

    def _note(self, partition: TopicPartition, offset: int) -> None:
        self.cursors[partition] = offset
        self._handed[partition] = Position(offset, 1)


class Program:
    """A member that stores its messages in *database*, in transactions that fail at random."""

    def __init__(self, database: Database, random: Random) -> None:
        self._database = database
        self._random = random
        self._saved = SavedPositions(database, "g")
        self._stream: Any = Stream()
        self._results: list[tuple[TopicPartition, int]] = []
        """The results of messages that the program has not stored yet."""

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Begin to read *partitions*."""
        stored = self._saved.acquire(dict.fromkeys(partitions))
        self.revoke(partitions)
        self._saved.begin(self._stream, stored)
        self._stream.cursors |= {each: position.offset for each, position in stored.items()}
        self._stream.assigned_since.update(partitions)

    def revoke(self, partitions: list[TopicPartition]) -> None:
        """Stop reading *partitions*, as soon as the member learns that it has lost them."""
        for each in partitions:
            self._stream.cursors.pop(each, None)

    @property
    def reads(self) -> list[TopicPartition]:
        """The partitions that the member reads, although it may have lost them."""
        return sorted(self._stream.cursors)

    def step(self) -> None:
        """Read some messages, or store those that were read."""
        chance = self._random.random()
        if chance < 0.5:
            self._results += self._stream.next(self._random)
        elif chance < 0.55 and self.reads:
            partition = self._random.choice(self.reads)
            back = self._random.randrange(self._stream.cursors[partition] + 1)
            self._saved.seek(self._stream, partition, back)
        else:
            try:
                self._store()
            except OffsetStoreFencedError:
                self.rewind()

    def rewind(self) -> None:
        self._results = []
        self._saved.rewind(self._stream)

    def _store(self) -> None:
        match self._random.choice(["commits", "commits", "rolled back", "unknown"]):
            case "commits":
                self._transact(commits=True)
                self._results = []
                return
            case "rolled back":
                self._transact(commits=False)
                if self._random.random() < 0.3:
                    return  # the next transaction contains the results, against the rules
            case _:
                self._transact(commits=self._random.random() < 0.5)
        match self._random.choice(["repeat", "redeliver", "rewind", "leave out"]):
            case "repeat":
                self._transact(commits=True)
                self._results = []
            case "redeliver" if self._results == self._stream.batch:
                self._saved.redeliver(self._stream)
                self._results = []
            case "leave out":
                self._results = self._stream.next(self._random)  # against the rules
            case _:
                self.rewind()

    def _transact(self, *, commits: bool) -> None:
        transaction = self._database.content.copy()
        transaction.results.extend(self._results)
        self._saved.save(transaction, self._stream)
        if commits:
            self._database.content = transaction


@pytest.mark.parametrize("case", range(30))
def test_each_message_is_stored_once_in_whatever_order_members_save_and_fail(case: int) -> None:
    random, database = dice(f"saves {case}"), Database()
    programs = [Program(database, random) for _ in range(3)]
    for _ in range(1500):
        program = random.choice(programs)
        chance = random.random()
        if chance < 0.03:
            program.assign(random.sample(PARTITIONS, random.randrange(1, 4)))
        elif chance < 0.05 and program.reads:
            program.revoke(random.sample(program.reads, 1))
        else:
            program.step()
        twice = [each for each, count in Counter(database.content.results).items() if count > 1]
        assert not twice
    for each in PARTITIONS:
        offset = database.content.positions.get(each, StoredPosition(0, 0)).offset
        stored = sorted(at for partition, at in database.content.results if partition == each)
        assert stored == list(range(offset or 0))
