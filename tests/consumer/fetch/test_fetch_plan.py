"""The plan of the requests of a fetcher, and that thousands of partitions cost as much as a few."""

from collections.abc import Callable
from typing import Any

import pytest

from pyklient.config import ConsumerConfig
from pyklient.consumer.fetch.fetch_budget import ExpectedResponse, FetchBudget, ResponseMemory
from pyklient.consumer.fetch.fetch_plan import FetchPlan
from pyklient.consumer.fetch.fetch_position import Cursor, FetchedBatches
from pyklient.consumer.fetch.fetch_queue import FetchQueue
from pyklient.consumer.fetch.fetch_session import FetchSession
from pyklient.consumer.fetch.fetcher_handover import FetchedPartition
from pyklient.consumer.fetch.leader_lookup import LeaderLookup
from pyklient.consumer.fetch.open_transactions import OpenTransactions
from pyklient.consumer.owned_partitions import OwnedPartition
from pyklient.protocol.messages import FetchRequest, FetchResponse
from pyklient.topic_partition import TopicPartition
from tests.consumer.stream.bench import Bench
from tests.steps import steps_of

MANY = 4_000
QUEUE = FetchQueue("t")


def cursor_of(number: int) -> Cursor:
    owned = OwnedPartition(TopicPartition("t", number), generation=1)
    cursor = Cursor(owned, position=0, reset="earliest")
    cursor.topic_id = b"i" * 16
    return cursor


class Fetching:
    """A plan for *count* partitions, and the session in which its requests are sent."""

    def __init__(self, count: int, **options: Any) -> None:
        self.budget = FetchBudget(64 << 20)
        self.cursors = [cursor_of(number) for number in range(count)]
        self.budget.cursors = tuple(self.cursors)
        self.budget.responses = [ExpectedResponse()]
        config = ConsumerConfig.from_options({"bootstrap_servers": "localhost:1", **options})
        self.plan = FetchPlan(self.budget, config)
        for cursor in self.cursors:
            self.plan.add(FetchedPartition(cursor, QUEUE))
        self.session = FetchSession()
        self.now = 0.0

    def ask(self) -> FetchRequest:
        """Return the next request, and answer it with an empty response."""
        self.plan.drop_inactive(self.now)
        assert self.plan.update(self.now, 1)
        self.budget.response_limit(self.budget.responses[0], self.plan.allowed, 16 << 20)
        request = FetchRequest()
        self.session.fill(request, self.plan.wanted, self.plan.drain_changed(), by_id=True)
        self.session.accept(FetchResponse(session_id=7))
        return request

    def fetched(self, cursor: Cursor, size: int = 100) -> None:
        """Let *size* bytes with ten records of *cursor* arrive."""
        cursor.fetched += size
        cursor.position = (cursor.position or 0) + 10
        self.budget.note_fetched(cursor)
        self.plan.note_change(cursor)


def named(request: FetchRequest) -> dict[int, int]:
    """Return the partitions that *request* names, with their offsets."""
    return {each.partition: each.fetch_offset for topic in request.topics for each in topic.partitions}


def forgotten(request: FetchRequest) -> list[int]:
    return [number for topic in request.forgotten_topics_data for number in topic.partitions]


def test_a_request_names_the_partitions_of_which_records_have_arrived() -> None:
    fetching = Fetching(1_000)
    assert named(fetching.ask()) == dict.fromkeys(range(1_000), 0)
    assert named(fetching.ask()) == {}
    fetching.fetched(fetching.cursors[3])
    fetching.fetched(fetching.cursors[1])
    assert list(named(fetching.ask()).items()) == [(3, 10), (1, 10)]
    assert named(fetching.ask()) == {}


@pytest.mark.parametrize("unread", [0, 3])
def test_a_request_takes_as_many_steps_with_forty_times_the_partitions(unread: int) -> None:
    steps = []
    for count in (MANY // 40, MANY):
        fetching = Fetching(count)
        fetching.ask()
        for cursor in fetching.cursors[:unread]:
            fetching.fetched(cursor)

        def some_requests(fetching: Fetching = fetching) -> None:
            for _ in range(MANY // 20):
                fetching.fetched(fetching.cursors[0], 0)
                fetching.ask()

        steps.append(steps_of(some_requests))
    assert steps[1] < 1.5 * steps[0]


def test_a_partition_that_may_fetch_nothing_is_forgotten_and_named_again_when_its_loop_has_read() -> None:
    fetching = Fetching(1_000)
    slow = fetching.cursors[5]
    fetching.ask()
    fetching.fetched(slow, 60 << 20)
    request = fetching.ask()
    assert (named(request), forgotten(request)) == ({}, [5])
    assert fetching.plan.left_out == [slow]
    assert forgotten(fetching.ask()) == []
    slow.taken = slow.fetched
    assert named(fetching.ask()) == {5: 10}
    assert fetching.plan.left_out == []


def test_bytes_that_a_loop_returns_count_again_after_a_second() -> None:
    fetching = Fetching(1_000)
    cursor, other = fetching.cursors[:2]
    fetching.fetched(cursor, 40 << 20)
    cursor.taken = cursor.fetched
    fetching.ask()
    free = fetching.budget.allow([other], 1 << 30, 0.0)[other]
    cursor.taken = 0
    fetching.now += 1.5
    fetching.ask()
    assert fetching.budget.allow([other], 1 << 30, 0.0)[other] < free


def test_a_revoked_partition_is_forgotten_with_the_next_request() -> None:
    fetching = Fetching(1_000)
    fetching.ask()
    fetching.cursors[7].owned.active = False
    fetching.budget.cursors = tuple(cursor for cursor in fetching.cursors if cursor.active)
    assert forgotten(fetching.ask()) == [7]
    assert TopicPartition("t", 7) not in fetching.plan.states


def test_a_partition_that_is_paused_is_forgotten_within_a_second_and_named_at_once_when_it_is_resumed() -> (
    None
):
    fetching = Fetching(1_000)
    fetching.ask()
    fetching.cursors[7].owned.paused = True
    fetching.now += 1.5
    assert forgotten(fetching.ask()) == [7]
    assert fetching.plan.left_out == []
    fetching.cursors[7].owned.paused = False
    assert named(fetching.ask()) == {7: 0}


def test_a_paused_partition_among_a_few_is_forgotten_with_the_next_request() -> None:
    fetching = Fetching(10)
    fetching.ask()
    fetching.cursors[7].owned.paused = True
    assert forgotten(fetching.ask()) == [7]


def test_a_response_belongs_to_the_partitions_that_were_asked_for() -> None:
    fetching = Fetching(10)
    fetching.ask()
    plan, cursor = fetching.plan, fetching.cursors[3]
    state = plan.states[cursor.partition]
    assert plan.asked("t", 3) is plan.asked(b"i" * 16, 3) is state
    assert plan.asked("t", 10) is plan.asked("other", 3) is plan.asked(b"o" * 16, 3) is None
    cursor.topic_id = b"o" * 16
    assert plan.asked(b"i" * 16, 3) is None, "the topic was created again"
    cursor.owned.paused = True
    fetching.ask()
    assert plan.asked("t", 3) is None


def test_old_brokers_are_asked_for_as_many_partitions_as_fit_in_turn() -> None:
    fetching = Fetching(4, max_partition_fetch_bytes=1 << 20)
    seen = []
    for _ in range(3):
        fetching.plan.update(fetching.now, 1 << 20)
        fetching.plan.reduce(3 << 20)
        seen.append([cursor.partition.partition for cursor in fetching.plan.allowed])
        assert len(fetching.plan.left_out) == 1
    assert seen == [[0, 1, 2], [3, 0, 1], [2, 3, 0]]


def test_a_response_takes_as_many_steps_with_a_hundred_times_the_unread_slices() -> None:
    steps = []
    cursor = Bench().cursors[0]
    buffer = memoryview(bytes(10))
    for unread in (100, 10_000):
        memory = ResponseMemory()
        for _ in range(unread):
            memory.add(10, [FetchedBatches(cursor, buffer, 0, 1)])
        memory.compact(1 << 20)

        def some_responses(memory: ResponseMemory = memory) -> None:
            for _ in range(100):
                memory.add(10, [FetchedBatches(cursor, buffer, 0, 1)])
                memory.compact_some(1 << 20)

        steps.append(steps_of(some_responses))
    assert steps[1] < 2 * steps[0]


def test_memory_that_is_read_is_released_when_much_was_received() -> None:
    memory, cursor = ResponseMemory(), Bench().cursors[0]
    small = memoryview(bytes(10))
    for _ in range(5_000):
        memory.add(10, [FetchedBatches(cursor, small, 0, 1)])
    memory.compact(1 << 20)
    frame = bytes(1 << 20)
    read, left = (FetchedBatches(cursor, memoryview(frame)[at : at + 10], 0, 1) for at in (0, 10))
    memory.add(1 << 20, [read, left])
    read.buffer = memoryview(b"")
    memory.compact_some(1 << 18)
    assert left.buffer.obj is not frame


class _Silence:
    """A client of which the leader lookup asks nothing."""

    def on_cluster_change(self, call: Callable[[], None]) -> None:
        pass


def test_the_leader_lookup_gets_a_cursor_in_as_many_steps_however_many_come_together() -> None:
    steps = []
    for count in (100, 2_000):
        config = ConsumerConfig.from_options({"bootstrap_servers": "localhost:1"})
        client: Any = _Silence()
        budget = FetchBudget(1 << 20)
        lookup = LeaderLookup(client, config, budget, OpenTransactions(client, config))
        cursors = [cursor_of(number) for number in range(count)]
        lookup.add([FetchedPartition(cursor, QUEUE) for cursor in cursors])
        lookup._collect()
        successors = [cursor.successor(5) for cursor in cursors]
        for cursor, successor in zip(cursors, successors, strict=True):
            cursor.dropped = True
            lookup.seek(FetchedPartition(successor, QUEUE), None)
        steps.append(steps_of(lookup._collect) / count)
        assert set(budget.cursors) == set(successors)
    assert steps[1] < 1.5 * steps[0]
