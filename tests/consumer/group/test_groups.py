"""Several connectors in one group, on a broker that coordinates the group."""

import logging
import threading
import time
from collections import Counter
from itertools import islice
from typing import Any

import pytest

from pyklient.consumer.consumer_connector import ConsumerConnector
from pyklient.consumer.kafka_stream import KafkaStream
from pyklient.errors import BrokerError, ClosedError, CommitError, KafkaTimeoutError
from pyklient.topic_partition import TopicPartition
from tests.consumer.feed import Feed, wait_for
from tests.consumer.stream.bench import until_quiet, values

QUICK: dict[str, Any] = {
    "auto_offset_reset": "earliest",
    "fetch_max_wait_ms": 50,
    "heartbeat_interval_ms": 30,
    "session_timeout_ms": 6_000,
    "consumer_timeout_ms": 60_000,
}


def connect(feed: Feed, group: str, **options: Any) -> ConsumerConnector:
    return ConsumerConnector(feed.bootstrap_servers, group_id=group, **{**QUICK, **options})


class Reader:
    """A thread that reads a stream to its end."""

    def __init__(self, stream: KafkaStream) -> None:
        self.seen: list[Any] = []
        self._stream = stream
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        for message in self._stream:
            self.seen.append(message)

    @property
    def partitions(self) -> set[int]:
        return {message.partition for message in self.seen}

    def join(self) -> None:
        self._thread.join(30)
        assert not self._thread.is_alive()


class Listener:
    """A rebalance listener that records its calls."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def before_releasing_partitions(self, owned: dict[str, set[int]]) -> None:
        self.told.append(owned)

    def before_starting_fetchers(self, consumer_id: str, assignment: dict[str, dict[int, str]]) -> None:
        assert all(
            stream.startswith(f"{consumer_id}-")
            for streams in assignment.values()
            for stream in streams.values()
        )
        self.told.append({topic: {p: s[-1] for p, s in of.items()} for topic, of in assignment.items()})


def spread(feed: Feed, topic: str, partitions: int, text: str) -> None:
    for partition in range(partitions):
        feed.send(topic, [f"{text}{partition}"], partition)


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
def test_members_share_and_take_over_and_nothing_is_lost_or_doubled(feed: Feed, strategy: str) -> None:
    topic, group = feed.topic(4), feed.name()
    options = {"partition_assignment_strategy": strategy}
    spread(feed, topic, 4, "a")
    with connect(feed, group, **options) as first:
        one = Reader(first.stream(topic))
        wait_for(lambda: len(one.seen) == 4, "the first four")
        second = connect(feed, group, **options)
        two = Reader(second.stream(topic))
        spread(feed, topic, 4, "b")
        wait_for(lambda: len(one.seen) + len(two.seen) == 8, "the next four")
        assert len(two.partitions) == 2
        second.close()
        two.join()
        spread(feed, topic, 4, "c")
        wait_for(lambda: len(one.seen) + len(two.seen) == 12, "the last four")
    one.join()
    counted = Counter((message.partition, message.offset) for message in one.seen + two.seen)
    assert set(counted.values()) == {1}
    assert feed.committed(group, topic, 4) == [3, 3, 3, 3]


def test_the_listener_hears_of_every_rebalance_and_may_commit(feed: Feed) -> None:
    topic, group = feed.topic(2, "a"), feed.name()
    connector = connect(feed, group, client_id="a", enable_auto_commit=False)

    class Committing(Listener):
        def before_releasing_partitions(self, owned: dict[str, set[int]]) -> None:
            super().before_releasing_partitions(owned)
            if owned:
                connector.commit_offsets()

    listener = Committing()
    connector.set_rebalance_listener(listener)
    with connector:
        reader = Reader(connector.create_message_streams({topic: 2})[topic][0])
        wait_for(lambda: reader.seen, "a message")
        assert listener.told == [{}, {topic: {0: "0", 1: "1"}}]
        with connect(feed, group, client_id="b") as other:
            other.stream(topic)
            wait_for(lambda: len(listener.told) == 4, "the rebalance")
            assert listener.told[2:] == [{topic: {0, 1}}, {topic: {0: "0"}}]
            assert feed.committed(group, topic) == [1]
    reader.join()
    *_, before, last = listener.told
    # The connector may close in the rebalance after the other one has left, and then owns nothing.
    assert (last or before) in ({topic: {0}}, {topic: {0, 1}})


def test_a_listener_that_fails_is_logged_and_stops_nobody(
    feed: Feed, caplog: pytest.LogCaptureFixture
) -> None:
    topic = feed.topic(1, "a")

    class Broken:
        def before_releasing_partitions(self, owned: dict[str, set[int]]) -> None:
            raise RuntimeError("first")

        def before_starting_fetchers(self, consumer_id: str, assignment: dict[str, dict[int, str]]) -> None:
            raise RuntimeError("second")

    with connect(feed, feed.name()) as connector:
        connector.set_rebalance_listener(Broken())
        assert values(list(islice(connector.stream(topic), 1))) == ["a"]
    assert "first" in caplog.text
    assert "second" in caplog.text


def test_a_commit_of_what_others_read_now_names_it_after_committing_the_rest(feed: Feed) -> None:
    topic, group = feed.topic(2, "a"), feed.name()
    feed.send(topic, ["b"], partition=1)
    with connect(feed, group, client_id="a", enable_auto_commit=False) as connector:
        stream = connector.stream(topic)
        list(islice(stream, 2))
        with connect(feed, group, client_id="b") as other:
            other.stream(topic)
            wait_for(lambda: held(connector) == {0}, "the rebalance")
            said = f"not committed: {topic}-1 .*not assign the partition to this connector in generation 2"
            with pytest.raises(CommitError, match=said) as caught:
                stream.commit_offsets()
            assert list(caught.value.partitions) == [TopicPartition(topic, 1)]
            assert feed.committed(group, topic, 2) == [1, None]
            stream.commit_offsets()  # what was lost is reported once
            with pytest.raises(CommitError, match=f"{topic}-1"):
                connector.commit_offsets({TopicPartition(topic, 0): 1, TopicPartition(topic, 1): 1})


def test_messages_that_come_again_take_no_commit_back(feed: Feed) -> None:
    topic, group = feed.topic(2, "a", "b", "c"), feed.name()
    with connect(feed, group, client_id="a", enable_auto_commit=False) as connector:
        stream = connector.stream(topic)
        assert values(next(stream.batches(3, timeout=30))) == ["a", "b", "c"]  # which are in hand
        with connect(feed, group, client_id="b") as other:
            other.stream(topic)
            wait_for(lambda: held(connector) == {0}, "the rebalance")
            connector.commit_offsets()  # before any of them comes again
            committed = [feed.committed(group, topic)]
            for value in "abc":
                assert next(iter(stream)).value.decode() == value
                connector.commit_offsets()
                committed.append(feed.committed(group, topic))
            assert committed == [[3], [3], [3], [3]]
            feed.send(topic, ["d"], 0)
            assert next(iter(stream)).value == b"d"
            connector.commit_offsets()
            assert feed.committed(group, topic) == [4]


def test_a_position_that_the_program_goes_back_to_is_committed_also_if_messages_come_again(
    feed: Feed,
) -> None:
    topic, group = feed.topic(2, "a", "b", "c"), feed.name()
    with connect(feed, group, client_id="a", enable_auto_commit=False) as connector:
        stream = connector.stream(topic)
        assert values(next(stream.batches(3, timeout=30))) == ["a", "b", "c"]
        with connect(feed, group, client_id="b") as other:
            other.stream(topic)
            wait_for(lambda: held(connector) == {0}, "the rebalance")
            connector.commit_offsets()
            stream.seek(TopicPartition(topic, 0), 1)
            connector.commit_offsets()
            assert feed.committed(group, topic) == [1]
            assert next(iter(stream)).value == b"b"
            connector.commit_offsets()
            assert feed.committed(group, topic) == [2]
            stream.redeliver()
            connector.commit_offsets()
            assert feed.committed(group, topic) == [1]


def test_a_partition_that_stays_is_read_on_at_its_position_whatever_the_program_commits(feed: Feed) -> None:
    topic, group = feed.topic(2, "a", "b", "c"), feed.name()
    zero = TopicPartition(topic, 0)
    with connect(feed, group, client_id="a", enable_auto_commit=False) as connector:
        stream = connector.stream(topic)
        stream.seek(zero, 1)
        for committed in (1, 3):
            connector.commit_offsets({zero: committed})
            with connect(feed, group, client_id="b") as other:
                other.stream(topic)
                wait_for(lambda: held(connector) == {0}, "the rebalance")
            wait_for(lambda: held(connector) == {0, 1}, "the other partition")
            assert stream.position(zero) == 1


def released(connector: ConsumerConnector) -> bool:
    return connector._ownership.rebalancing


def held(connector: ConsumerConnector) -> set[int]:
    assignment = connector._ownership.assignment
    return {each.partition for each in assignment.partitions} if assignment is not None else set()


def test_a_slow_handler_keeps_its_partitions_and_its_commit_counts(feed: Feed) -> None:
    topic, group = feed.topic(1, "a", "b"), feed.name()
    listener = Listener()
    options = {"session_timeout_ms": 2_000, "enable_auto_commit": False}
    with connect(feed, group, **options) as connector:
        connector.set_rebalance_listener(listener)
        loop = iter(connector.stream(topic))
        next(loop)
        threading.Event().wait(4.5)  # the slow handler: twice the session time-out and more
        connector.commit_offsets()
        assert next(loop).value == b"b"
        assert len(listener.told) == 2, "no rebalance"
    assert feed.committed(group, topic) == [1]


def test_a_message_in_hand_through_a_rebalance_is_finished_and_committed(feed: Feed) -> None:
    topic, group = feed.topic(2, "a"), feed.name()
    got, go_on = threading.Event(), threading.Event()
    with connect(feed, group, enable_auto_commit=False) as connector:
        stream = connector.stream(topic)

        def work() -> None:
            for _ in stream:
                got.set()
                go_on.wait(60)
                connector.commit_offsets()

        reader = threading.Thread(target=work)
        reader.start()
        assert got.wait(30)
        other = connect(feed, group, enable_auto_commit=False)
        joining = threading.Thread(target=lambda: other.stream(topic))
        joining.start()
        wait_for(lambda: released(connector), "the rebalance to begin")
        go_on.set()
        joining.join(30)
        assert feed.committed(group, topic) == [1]
        connector.close()
        reader.join(30)
        other.close()


def test_a_member_that_stands_still_leaves_and_comes_back_when_its_loop_goes_on(
    feed: Feed, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="pyklient.consumer")
    topic, group = feed.topic(1, "a", "b", "c"), feed.name()
    with connect(feed, group, max_poll_interval_ms=500) as connector:
        loop = iter(connector.stream(topic))
        assert next(loop).value == b"a"
        left = "its loop has asked for no message within max_poll_interval_ms=500 although a message waits"
        wait_for(lambda: left in caplog.text, "the member to leave")
        wait_for(lambda: not held(connector), "the partitions to be given back")
        with pytest.raises(CommitError, match="a loop asked for no message for max_poll_interval_ms"):
            connector.commit_offsets()
        assert values([next(loop), next(loop)]) == ["a", "b"]
        assert "because the member's loop goes on" in caplog.text


def test_a_member_that_looks_in_without_waiting_comes_back_too(feed: Feed) -> None:
    topic, group = feed.topic(1, "a", "b"), feed.name()
    with connect(feed, group, max_poll_interval_ms=500) as connector:
        batches = connector.stream(topic).batches(max_records=1, timeout=0)
        wait_for(lambda: next(batches), "the first message")
        wait_for(lambda: not held(connector), "the partitions to be given back")
        wait_for(lambda: values(next(batches)) == ["a"], "the message in hand to come again")
        wait_for(lambda: values(next(batches)) == ["b"], "the one behind it")


def test_a_member_stays_away_until_the_very_loop_that_stood_still_goes_on(
    feed: Feed, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="pyklient.consumer")
    topic, group = feed.topic(2, "a", "b", "c", "d"), feed.name()
    with connect(feed, group, max_poll_interval_ms=500) as connector:
        slow, quick = connector.create_message_streams({topic: 2})[topic]
        loop = iter(slow)
        next(loop)
        reader = threading.Thread(target=lambda: list(quick), daemon=True)
        reader.start()
        wait_for(lambda: not held(connector), "the partitions to be given back")
        began = time.monotonic()
        wait_for(lambda: time.monotonic() > began + 1, "a while")
        assert caplog.text.count("max_poll_interval_ms=500") == 1
        next(loop)
        assert held(connector)
    reader.join(30)


def test_different_ways_of_dealing_do_not_mix(feed: Feed) -> None:
    topic, group = feed.topic(1), feed.name()
    with (
        connect(feed, group) as first,
        connect(feed, group, partition_assignment_strategy="roundrobin") as other,
    ):
        first.stream(topic)
        with pytest.raises(BrokerError, match="partition_assignment_strategy"):
            other.stream(topic)


def test_new_partitions_are_noticed_and_dealt(feed: Feed) -> None:
    topic, group = feed.topic(1, "a"), feed.name()
    with connect(feed, group, metadata_max_age_ms=30) as connector:
        loop = iter(connector.stream(topic))
        assert next(loop).value == b"a"
        feed.grow(topic, 3)
        feed.send(topic, ["b"], partition=2)
        assert next(loop).value == b"b"


def test_a_topic_that_comes_later_is_read_from_then_on(feed: Feed, caplog: pytest.LogCaptureFixture) -> None:
    topic, group = feed.name(), feed.name()
    with connect(feed, group, metadata_max_age_ms=30) as connector:
        stream = connector.stream(topic)
        assert f"do not exist yet: {topic}" in caplog.text
        feed.topic(2, "a", name=topic)
        assert values(list(islice(stream, 1))) == ["a"]


def test_a_member_whose_coordinator_forgot_it_joins_again(feed: Feed) -> None:
    topic, group = feed.topic(1, "a"), feed.name()
    with connect(feed, group, session_timeout_ms=2_000) as connector:
        stream = connector.stream(topic)
        membership: Any = connector._membership
        membership._member.member_id = "nobody"
        wait_for(lambda: membership.identity.generation > 1, "the new generation")
        assert values(until_quiet(stream, 1)) == ["a"]


def test_joining_in_vain_is_given_up_in_time_and_leaves_no_thread(feed: Feed) -> None:
    topic, group = feed.topic(1, "a"), feed.name()
    with connect(feed, group, session_timeout_ms=30_000) as holder:
        in_hand = iter(holder.stream(topic))
        next(in_hand)
        before = set(threading.enumerate())
        late = connect(
            feed, group, session_timeout_ms=6_000, default_api_timeout_ms=1_000, rebalance_timeout_ms=1_000
        )
        began = time.monotonic()
        with pytest.raises(KafkaTimeoutError, match="could not join within"):
            late.stream(topic)
        assert time.monotonic() - began < 20
        assert not [each.name for each in set(threading.enumerate()) - before if "-group-" in each.name]


def test_closing_while_others_are_waited_for_does_not_take_long(feed: Feed) -> None:
    topic, group = feed.topic(1, "a"), feed.name()
    got, go_on = threading.Event(), threading.Event()
    with connect(feed, group, session_timeout_ms=30_000) as holder:
        stream = holder.stream(topic)

        def work() -> None:
            for _ in stream:
                got.set()
                go_on.wait(60)

        reader = threading.Thread(target=work)
        reader.start()
        assert got.wait(30)
        late = connect(feed, group, session_timeout_ms=30_000)
        raised: list[str] = []

        def join_late() -> None:
            try:
                late.stream(topic)
            except ClosedError as error:
                raised.append(str(error))

        joining = threading.Thread(target=join_late)
        joining.start()
        wait_for(lambda: released(holder), "the rebalance to begin")
        began = time.monotonic()
        late.close()
        assert time.monotonic() - began < 20
        joining.join(30)
        assert raised == ["this ConsumerConnector was closed before it had joined its group"]
        go_on.set()
        holder.close()
        reader.join(30)


def test_automatic_commit_with_two_streams_in_two_threads_never_passes_what_is_in_hand(feed: Feed) -> None:
    topic, group = feed.topic(2), feed.name()
    for partition in range(2):
        feed.send(topic, [str(number) for number in range(100)], partition)
    in_hand = [0, 0]
    passed: list[tuple[int, int, int]] = []
    done = threading.Event()
    with connect(feed, group, auto_commit_interval_ms=5) as connector:
        streams = connector.create_message_streams({topic: 2})[topic]

        def work(stream: KafkaStream) -> None:
            for message in islice(stream, 100):
                in_hand[message.partition] = message.offset
                threading.Event().wait(0.002)

        def watch() -> None:
            while not done.is_set():
                for partition, at in enumerate(feed.committed(group, topic, 2)):
                    # asked first, looked at afterwards: what was in hand can only have moved on since
                    if at is not None and at > in_hand[partition]:
                        passed.append((partition, at, in_hand[partition]))

        threads = [threading.Thread(target=work, args=(stream,)) for stream in streams]
        watcher = threading.Thread(target=watch)
        for thread in [*threads, watcher]:
            thread.start()
        for thread in threads:
            thread.join(30)
        done.set()
        watcher.join(30)
    assert passed == []
    assert feed.committed(group, topic, 2) == [100, 100]
