"""Random sequences of what a program may do with a stream, against a model: what is handed out and committed
is what the model says."""

import os
import threading
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from pyklient import ConsumerConnector, Producer, TopicPartition
from pyklient.consumer.kafka_stream import KafkaStream
from tests.servers.fixtures import NewName, NewTopic
from tests.servers.groups import committed
from tests.servers.process import wait_until

EXAMPLES = int(os.environ.get("PYKLIENT_MODEL_EXAMPLES", "5"))
"""The number of sequences. ``make model EXAMPLES=500 SEED=7`` sets it."""
PARTITIONS = 2
FIRST_TIME = 1_600_000_000_000
PATIENCE = 20.0

parts = st.integers(0, PARTITIONS - 1)
forms = st.sampled_from(["messages", "batches", "arrow"])


class StreamMachine(RuleBasedStateMachine):
    """One connector, and the state that it must have. Message n of a partition has the timestamp FIRST_TIME +
    1000 n.

    *in_group* says whether the connector is a member of its group, or reads partitions chosen by hand.
    """

    def __init__(self, bootstrap: str, new_topic: NewTopic, new_name: NewName, in_group: bool) -> None:
        super().__init__()
        self.bootstrap, self.topic, self.group = bootstrap, new_topic(partitions=PARTITIONS), new_name()
        self.in_group = in_group
        self.producer = Producer(bootstrap, linger_ms=0)
        self.ends = [0] * PARTITIONS
        self.committed: dict[int, int] = {}
        self.connector: ConsumerConnector
        self.stream: KafkaStream

    def teardown(self) -> None:
        self.connector.close()
        self.producer.close()

    def tp(self, partition: int) -> TopicPartition:
        return TopicPartition(self.topic, partition)

    def connect(self, client_id: str = "a") -> ConsumerConnector:
        return ConsumerConnector(
            self.bootstrap,
            group_id=self.group,
            client_id=client_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            fetch_max_wait_ms=10,
            heartbeat_interval_ms=50,
            default_api_timeout_ms=int(PATIENCE * 1000),
        )

    @initialize(sizes=st.lists(st.integers(0, 6), min_size=PARTITIONS, max_size=PARTITIONS))
    def begin(self, sizes: list[int]) -> None:
        for partition, size in enumerate(sizes):
            self.produce(partition, size)
        self.open({})

    def open(self, start: dict[TopicPartition, Any]) -> None:
        self.connector = self.connect()
        if self.in_group:
            self.stream = self.connector.stream(self.topic, start=start)
        else:
            self.stream = self.connector.assign({self.topic: range(PARTITIONS)}, start=start)
        self.start = start
        self.positions = [self.beginning(each) for each in range(PARTITIONS)]
        self.read = [False] * PARTITIONS
        self.named: set[int] = set()
        self.paused: set[int] = set()
        self.in_hand: dict[int, int] = {}
        self.set_back: dict[int, int] = {}
        """The offsets after the messages in hand that a rebalance hands out again. As long as none of them
        has come again, a commit stores these offsets, because the program may have handled the messages."""
        self.set_back_in_hand = False
        """True if no loop has asked for a message since these messages were in hand."""
        self.again: dict[int, int] = {}
        """The offsets before which positions are not committed, because the messages before them were
        committed after the rebalance that hands them out again."""
        self.check_positions()

    def beginning(self, partition: int) -> int:
        """The offset at which a connector begins to read *partition*."""
        named = self.start.get(self.tp(partition))
        if named is None or (self.in_group and partition in self.committed):
            return self.committed.get(partition, 0)
        return self.offset(partition, named)

    def offset(self, partition: int, point: Any) -> int:
        """The offset of a start point."""
        if isinstance(point, int):
            return point
        if isinstance(point, datetime):
            return min(self.ends[partition], -(-(int(point.timestamp() * 1000) - FIRST_TIME) // 1000))
        return 0 if point == "beginning" else self.ends[partition]

    def point(self, data: Any, partition: int) -> Any:
        """Draw a start point."""
        kind = data.draw(st.sampled_from(["offset", "offset", "beginning", "end", "time"]))
        if kind == "offset":
            return data.draw(st.integers(0, self.ends[partition]))
        if kind == "time":
            milliseconds = data.draw(st.integers(0, 1000 * self.ends[partition] + 2000))
            return datetime.fromtimestamp((FIRST_TIME + milliseconds) / 1000, UTC)
        return kind

    def check_positions(self) -> None:
        found = [self.stream.position(self.tp(each)) for each in range(PARTITIONS)]
        assert found == self.positions
        assert self.stream.paused() == [self.tp(each) for each in sorted(self.paused)]

    def left(self) -> int:
        """The number of messages that a loop can still get."""
        return sum(
            self.ends[each] - self.positions[each] for each in range(PARTITIONS) if each not in self.paused
        )

    @rule(partition=parts, count=st.integers(1, 8))
    def produce(self, partition: int, count: int) -> None:
        for _ in range(count):
            number = self.ends[partition]
            self.producer.send(
                self.topic, b"%d" % number, partition=partition, timestamp_ms=FIRST_TIME + 1000 * number
            )
            self.ends[partition] += 1
        self.producer.flush()

    @rule(form=forms, count=st.integers(1, 9), most=st.integers(1, 5))
    def read_some(self, form: str, count: int, most: int) -> None:
        """One loop, which goes on for *count* steps or until nothing is left."""
        if form == "messages":
            loop = iter(self.stream)
            for _ in range(min(count, self.left())):
                message = next(loop)
                self.got([(message.partition, message.offset, message.value)])
        elif form == "batches":
            lists = self.stream.batches(most, timeout=PATIENCE)
            for _ in range(count):
                if not self.left():
                    break
                batch = next(lists)
                assert 0 < len(batch) <= most
                self.got([(each.partition, each.offset, each.value) for each in batch])
        else:
            columns = self.stream.arrow_batches(most, timeout=PATIENCE)
            for _ in range(count):
                if not self.left():
                    break
                rows = next(columns)
                assert 0 < rows.num_rows <= most
                names = ("partition", "offset", "value")
                self.got(list(zip(*(rows.column(name).to_pylist() for name in names), strict=True)))

    def got(self, messages: list[tuple[int, int, Any]]) -> None:
        self.in_hand, self.set_back_in_hand = {}, False
        for partition, offset, value in messages:
            self.set_back.pop(partition, None)
            assert partition not in self.paused
            assert offset == self.positions[partition]
            assert bytes(value) == b"%d" % offset
            self.in_hand.setdefault(partition, offset)
            self.positions[partition] = offset + 1
            self.read[partition] = True

    @rule()
    def find_nothing(self) -> None:
        if self.left():
            return  # no precondition: it would depend on the partition of which a message has arrived first
        assert next(self.stream.batches(timeout=0.05)) == []
        self.in_hand, self.set_back_in_hand = {}, False

    @rule(partition=parts, data=st.data())
    def seek(self, partition: int, data: Any) -> None:
        point = self.point(data, partition)
        self.stream.seek(self.tp(partition), point)
        self.positions[partition] = self.offset(partition, point)
        self.read[partition] = True
        for each in (self.in_hand, self.set_back, self.again):
            each.pop(partition, None)

    @rule(partition=parts)
    def pause(self, partition: int) -> None:
        self.stream.pause(self.tp(partition))
        self.paused.add(partition)

    @rule(partition=parts)
    def resume(self, partition: int) -> None:
        self.stream.resume(self.tp(partition))
        self.paused.discard(partition)

    @rule()
    def redeliver(self) -> None:
        self.stream.redeliver()
        for partition, offset in self.in_hand.items():
            self.positions[partition] = offset
        gone_back = self.in_hand.keys() | (self.set_back.keys() if self.set_back_in_hand else set())
        for partition in gone_back:
            self.set_back.pop(partition, None)
            self.again.pop(partition, None)
        self.in_hand = {}
        self.check_positions()

    @rule()
    def commit(self) -> None:
        self.stream.commit_offsets()
        for partition, position in enumerate(self.positions):
            if partition in self.set_back:
                if self.committed.get(partition) != self.set_back[partition]:
                    self.committed[partition] = self.again[partition] = self.set_back[partition]
            elif position >= self.again.get(partition, 0) and (
                self.read[partition] or partition not in self.named
            ):
                self.committed[partition] = position
        assert committed(self.bootstrap, self.group, self.topic) == self.committed

    @rule(partition=parts, data=st.data())
    def commit_named(self, partition: int, data: Any) -> None:
        offset = data.draw(st.integers(0, self.ends[partition]))
        self.connector.commit_offsets({self.tp(partition): offset})
        self.committed[partition] = offset
        self.named.add(partition)
        found = self.stream.committed(self.tp(partition))
        assert found is not None
        assert found.offset == offset

    @rule()
    def look(self) -> None:
        self.check_positions()
        lag = {self.tp(each): self.ends[each] - self.positions[each] for each in range(PARTITIONS)}
        assert self.stream.lag() == lag

    @rule(data=st.data(), named=st.sets(parts))
    def open_again(self, data: Any, named: set[int]) -> None:
        """Close the connector, and make another one of the same group."""
        self.connector.close()
        self.open({self.tp(each): self.point(data, each) for each in sorted(named)})

    @precondition(lambda self: self.in_group)
    @rule()
    def rebalance(self) -> None:
        """Another member joins, gets partition 1 and leaves again: partition 0 stays all the time."""
        (core,) = self.connector._streams
        with self.connect("b") as other:
            joining = threading.Thread(target=other.stream, args=(self.topic,))
            joining.start()
            joining.join(PATIENCE)
            wait_until(lambda: set(core.cursors) == {self.tp(0)}, PATIENCE, "partition 1 to be given away")
        wait_until(lambda: len(core.cursors) == PARTITIONS, PATIENCE, "partition 1 to come back")
        for partition in range(PARTITIONS):
            moved = partition == 1
            covered = self.committed.get(partition) == self.positions[partition]
            if moved:
                self.positions[partition] = self.beginning(partition)
                self.read[partition] = False
                self.paused.discard(partition)
                self.set_back.pop(partition, None)
            elif partition in self.set_back:
                after = self.set_back[partition]
                if self.committed.get(partition) == after or not self.set_back_in_hand:
                    self.positions[partition] = self.set_back.pop(partition)
            elif not self.read[partition]:
                self.positions[partition] = self.committed.get(partition, self.positions[partition])
            elif partition in self.in_hand and not covered:
                self.set_back[partition], self.set_back_in_hand = self.positions[partition], True
                self.positions[partition] = self.in_hand[partition]
        self.in_hand, self.again = {}, {}
        self.named = set()
        self.check_positions()


@pytest.mark.brokers(min="0.11")
@pytest.mark.parametrize("in_group", [True, False], ids=["in a group", "by hand"])
def test_a_stream_hands_out_and_commits_what_the_model_says(
    bootstrap: str, new_topic: NewTopic, new_name: NewName, in_group: bool
) -> None:
    class Machine(StreamMachine):
        def __init__(self) -> None:
            super().__init__(bootstrap, new_topic, new_name, in_group)

    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=25,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.explicit, Phase.generate],
        ),
    )
