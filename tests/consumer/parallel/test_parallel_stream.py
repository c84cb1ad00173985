"""The order in which workers get messages, the positions that are committed, and what comes again."""

import math
import random
import threading
from collections.abc import Iterable

import pytest

from pyklient.consumer.parallel import completed_offsets
from pyklient.consumer.parallel.key_queues import Task
from pyklient.consumer.parallel.parallel_consumer import ParallelConsumer
from pyklient.topic_partition import OffsetAndMetadata
from tests.consumer.feed import wait_for
from tests.consumer.parallel.bench import Bench, Record
from tests.run.seed import seed


def offsets(tasks: Iterable[Task | None]) -> list[int | None]:
    return [None if task is None else task.message.offset for task in tasks]


def unkeyed(count: int) -> list[Record]:
    return [Record(offset) for offset in range(count)]


def test_messages_of_one_key_are_handled_one_after_another_and_others_meanwhile() -> None:
    bench = Bench([Record(0, b"a"), Record(1, b"a"), Record(2, b"b"), Record(3, b"a")])
    bench.read_all()
    first, second = bench.take(), bench.take()
    assert offsets([first, second, bench.take()]) == [0, 2, None]
    assert first is not None
    bench.finish(first)
    third = bench.take()
    assert offsets([third, bench.take()]) == [1, None]


def test_messages_without_a_key_wait_for_no_other_message() -> None:
    bench = Bench(unkeyed(3))
    bench.read_all()
    assert offsets(bench.take() for _ in range(4)) == [0, 1, 2, None]


def test_with_the_order_of_partitions_one_message_of_a_partition_is_handled_at_a_time() -> None:
    bench = Bench([Record(0, b"a"), Record(1, b"b")], order="partition")
    bench.read_all()
    assert offsets([bench.take(), bench.take()]) == [0, None]


def test_without_an_order_messages_of_one_key_are_handled_at_the_same_time() -> None:
    bench = Bench([Record(0, b"a"), Record(1, b"a")], order="unordered")
    bench.read_all()
    assert offsets([bench.take(), bench.take()]) == [0, 1]


def test_workers_wait_while_the_lease_has_ended_and_get_nothing_that_was_revoked_meanwhile() -> None:
    bench = Bench(unkeyed(2))
    bench.read_all()
    first = bench.take()
    bench.lease.until = 0
    taken: list[Task | None] = []
    worker = threading.Thread(target=lambda: taken.append(bench.take()), daemon=True)
    worker.start()
    ready = bench.stream.queues._ready
    wait_for(lambda: ready.qsize() == 1, "the worker to begin")  # what is left says that there is no more
    assert taken == []
    bench.revoke()
    bench.lease.until = math.inf
    worker.join(10)
    assert offsets([first, *taken]) == [0, None]


def test_no_more_messages_are_in_hand_than_allowed() -> None:
    bench = Bench(unkeyed(10), max_in_hand=3)
    bench.read_all()
    tasks = [bench.take() for _ in range(4)]
    assert offsets(tasks) == [0, 1, 2, None]
    assert tasks[1] is not None
    bench.finish(tasks[1])
    bench.read_all()
    assert offsets([bench.take(), bench.take()]) == [3, None]


def test_messages_in_hand_have_no_more_bytes_than_allowed() -> None:
    bench = Bench([Record(0, bytes(90)), Record(1), Record(2)], max_bytes=50, max_in_hand=1)
    bench.read_all()  # the first message alone
    bench.stream.queues._max_in_hand = 1000
    bench.read_all()
    large = bench.take()
    assert large is not None
    assert bench.take() is None, "the first message is larger than all may be"
    bench.finish(large)
    bench.read_all()
    assert offsets([bench.take(), bench.take(), bench.take()]) == [1, 2, None]
    assert bench.stream.queues._bytes == 2


def test_the_first_message_in_hand_is_committed_and_what_is_done_behind_it_remembered() -> None:
    bench = Bench(unkeyed(6))
    assert bench.to_commit() is None
    bench.read_all()
    tasks = [bench.take() for _ in range(6)]
    for number in (0, 2, 4, 5):
        task = tasks[number]
        assert task is not None
        bench.finish(task)
    at = bench.to_commit()
    assert at is not None
    assert at.offset == 1
    assert completed_offsets.decode(at.offset, at.metadata) == [range(2, 3), range(4, 6)]
    assert Bench(unkeyed(8), at).handle_all() == [1, 3, 6, 7]


def test_a_message_whose_handler_failed_is_not_committed() -> None:
    bench = Bench(unkeyed(2))
    bench.read_all()
    first, second = bench.take(), bench.take()
    assert first is not None
    assert second is not None
    bench.finish(first, completed=False)
    bench.finish(second)
    at = bench.to_commit()
    assert at is not None
    assert Bench(unkeyed(2), at).handle_all() == [0]


def test_when_all_is_done_the_end_is_committed_without_metadata() -> None:
    bench = Bench(unkeyed(3))
    assert bench.handle_all() == [0, 1, 2]
    assert bench.to_commit() == OffsetAndMetadata(3, "")


def test_what_a_log_contains_after_it_was_emptied_is_not_mistaken_for_what_was_done() -> None:
    done = completed_offsets.encode(5, [range(6, 8)])
    bench = Bench(unkeyed(10), OffsetAndMetadata(5, done))
    bench.stream.queue.items.clear()
    bench._records = unkeyed(10)
    cursor_at_start = Bench(unkeyed(10)).stream.queue.items[0]
    cursor_at_start.cursor.owned = bench.owned
    bench.stream.queue.items.append(cursor_at_start)
    assert bench.handle_all() == list(range(10))


def test_a_message_that_is_read_again_while_its_first_handler_runs_counts_by_its_own_handler() -> None:
    bench = Bench(unkeyed(2))
    bench.read_all()
    old = [bench.take(), bench.take()]
    again = Bench(unkeyed(2)).stream.queue.items[0]  # as after the topic was created again
    again.cursor.owned = bench.owned
    bench.stream.queue.items.append(again)
    bench.read_all()
    new = [bench.take(), bench.take()]
    for task in old:
        assert task is not None
        bench.finish(task)
    assert bench.to_commit() == OffsetAndMetadata(0, ""), "the second handlers still run"
    for task in new:
        assert task is not None
        bench.finish(task)
    assert bench.to_commit() == OffsetAndMetadata(2, "")


def test_an_error_at_the_end_of_a_handler_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(unkeyed(1))

    def fail(*_: object, **__: object) -> None:
        raise ValueError("cannot finish")

    monkeypatch.setattr(bench.stream.queues, "finish", fail)
    consumer = ParallelConsumer(bench.stream, lambda: None, lambda _message: None, 1, False, None)
    with pytest.raises(ValueError, match="cannot finish"):
        consumer.run()


def test_messages_of_a_revoked_partition_that_wait_are_dropped_and_come_again() -> None:
    bench = Bench([Record(0, b"a"), Record(1, b"a"), Record(2, b"b"), Record(3)])
    bench.read_all()
    task = bench.take()
    assert task is not None
    bench.revoke()
    assert bench.take() is None
    assert bench.stream.queues.handles_revoked()
    assert not bench.stream.wait_until_asked(lambda: 0.0)
    bench.finish(task)
    assert bench.stream.wait_until_asked(lambda: 0.0)
    at = bench.to_commit()
    assert at is not None
    assert at.offset == 1
    bench.assign(at)
    assert bench.handle_all() == [1, 2, 3]
    assert bench.to_commit() == OffsetAndMetadata(4, "")


def test_what_was_done_in_the_assignment_just_before_is_not_handled_again_though_it_is_not_committed() -> (
    None
):
    bench = Bench(unkeyed(6))
    bench.read_all()
    tasks = [bench.take() for _ in range(5)]
    slow, quick = tasks[1], [tasks[0], tasks[3]]
    for task in quick:
        assert task is not None
        bench.finish(task)
    bench.revoke()
    at = bench.to_commit()
    assert at is not None
    bench.assign(None, reached=at.offset)
    assert slow is not None
    bench.finish(slow)  # after the wait of the rebalance was over
    assert bench.handle_all() == [2, 4, 5]
    assert bench.to_commit() == OffsetAndMetadata(6, "")


def test_a_key_waits_for_its_message_that_outlasts_a_rebalance() -> None:
    bench = Bench([Record(0, b"a"), Record(1, b"a"), Record(2, b"b")])
    bench.read_all()
    slow = bench.take()
    assert slow is not None
    bench.revoke()
    bench.assign(OffsetAndMetadata(0))
    bench.read_all()
    assert offsets([bench.take(), bench.take()]) == [2, None]
    bench.finish(slow)
    assert bench.to_commit() == OffsetAndMetadata(0, ""), "the handler belongs to the old assignment"
    assert offsets([bench.take(), bench.take()]) == [0, None]


def test_a_message_too_far_from_the_first_one_in_hand_waits_until_that_is_done() -> None:
    far = 10_000_000
    records = [Record(number * far) for number in range(1_000)]
    bench = Bench(records)
    bench.read_all()
    first = bench.take()
    assert first is not None
    handled = 0
    while (task := bench.take()) is not None:
        bench.finish(task)
        handled += 1
        at = bench.to_commit()
        assert at is not None
        assert len(at.metadata) <= 4096
    assert handled < 999, "the metadata of a commit cannot tell of them all"
    bench.finish(first)
    assert handled + 1 + len(bench.handle_all()) == 1_000


class Simulation:
    """Random steps of members that read one log, one after another, and die without notice.

    It checks that messages of a key are handled in order, that nothing is skipped, and that a message is
    handled again only if no commit tells that it is done.
    """

    def __init__(self, number: int) -> None:
        self.random = random.Random(f"{seed()}/{number}")
        self.records: list[Record] = []
        offset = 0
        for _ in range(self.random.randrange(1, 80)):
            offset += self.random.choice([1, 1, 1, 1, 2, 5, 1_000_000])
            self.records.append(Record(offset, self.random.choice([None, b"a", b"b", b"c", b"d"])))
        self.done: set[int] = set()
        # What the present member knows to be done: it has done it, or has read of it in the metadata.
        self.known: set[int] = set()
        self.stored: OffsetAndMetadata | None = None
        self.done_when_stored: set[int] = set()
        self.member = self.new_member()
        self.with_workers: list[Task] = []

    def new_member(self) -> Bench:
        self.known = set(self.done_when_stored)
        return Bench(self.records, self.stored, max_in_hand=self.random.choice([1, 2, 5, 20, 100]))

    def run(self) -> None:
        for _ in range(400):
            self.random.choices(
                [self.member.read_all, self.begin, self.end, self.commit, self.die, self.rebalance],
                [10, 40, 30, 10, 1, 1],
            )[0]()
        self.die()
        while True:
            self.member.read_all()
            self.begin()
            if not self.with_workers:
                break
            self.end()
        assert self.done == {record.offset for record in self.records}
        self.commit()
        assert self.stored == OffsetAndMetadata(self.records[-1].offset + 1, "")

    def begin(self) -> None:
        task = self.member.take()
        if task is None:
            return
        offset, key = task.message.offset, task.message.key
        assert offset not in self.known, "it is done, and this member knows that"
        if key is not None:
            earlier = {each.offset for each in self.records if each.key == key and each.offset < offset}
            assert earlier <= self.done
            assert key not in [each.message.key for each in self.with_workers]
        self.with_workers.append(task)

    def end(self) -> None:
        if self.with_workers:
            task = self.with_workers.pop(self.random.randrange(len(self.with_workers)))
            self.done.add(task.message.offset)
            self.known.add(task.message.offset)
            self.member.finish(task)

    def commit(self) -> None:
        if (at := self.member.to_commit()) is not None:
            self.stored, self.done_when_stored = at, set(self.known)

    def die(self) -> None:
        self.with_workers.clear()
        self.member = self.new_member()

    def rebalance(self) -> None:
        """Revoke the partition, wait for the handlers, commit or not, and assign it to the same member."""
        self.member.revoke()
        while self.with_workers:
            self.end()
        if self.random.random() < 0.5:
            self.commit()
        at = self.member.to_commit()
        self.member.assign(self.stored, None if at is None else at.offset)


@pytest.mark.parametrize("number", range(60))
def test_whatever_happens_nothing_is_skipped_and_keys_keep_their_order(number: int) -> None:
    Simulation(number).run()
