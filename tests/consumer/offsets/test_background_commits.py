"""Commits for which the program does not wait, on a reference broker."""

import threading
import time
from collections.abc import Collection, Mapping
from itertools import islice
from typing import Any

import pytest

from pyklient.consumer.commit.background_commits import BackgroundCommits, CommitCallback
from pyklient.consumer.commit.uncommitted_positions import ToCommit
from pyklient.consumer.group.rebalance_listener import ConsumerRebalanceListener
from pyklient.errors import ClosedError, CommitError, ConfigurationError, KafkaError, KafkaTimeoutError
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition
from tests.consumer.feed import Feed, wait_for
from tests.consumer.test_consumer_connector import connect

Outcome = tuple[dict[TopicPartition, OffsetAndMetadata], KafkaError | None]


def test_the_positions_at_the_time_of_the_call_are_committed_and_told(feed: Feed) -> None:
    partition = TopicPartition(feed.topic(1, *"abcd"), 0)
    group, outcomes = feed.name(), list[Outcome]()
    with connect(feed, group, enable_auto_commit=False) as connector:
        messages = iter(connector.stream(partition.topic))
        next(messages)
        connector.commit_offsets_async(callback=lambda *outcome: outcomes.append(outcome))
        next(messages)
        wait_for(lambda: outcomes, "the callback")
        assert outcomes == [({partition: OffsetAndMetadata(1, leader_epoch=0)}, None)]
        assert feed.committed(group, partition.topic) == [1]


def test_all_commits_are_made_in_the_order_of_the_calls(feed: Feed) -> None:
    topic = feed.topic(1, *"abcd")
    partition, group, told = TopicPartition(topic, 0), feed.name(), list[int]()
    with connect(feed, group, enable_auto_commit=False) as connector:
        connector.stream(topic)
        for number in range(50):
            connector.commit_offsets_async(
                {partition: number}, lambda offsets, _error: told.append(offsets[partition].offset)
            )
        connector.commit_offsets({partition: OffsetAndMetadata(3, "the last")})
        assert told == list(range(50)), "a commit that waits comes after them"
        assert feed.committed(group, topic) == [3]
        for number in (2, 1):
            connector.commit_offsets_async(
                {partition: number}, lambda offsets, _error: told.append(offsets[partition].offset)
            )
    assert told[-2:] == [2, 1], "closing waits for the callbacks"
    assert feed.committed(group, topic) == [1]


def test_an_error_goes_to_the_callback_and_an_error_in_it_stops_nothing(
    feed: Feed, caplog: pytest.LogCaptureFixture
) -> None:
    topic, outcomes = feed.topic(1, "a"), list[Outcome]()
    elsewhere = {TopicPartition(topic, 7): 1}
    with connect(feed, feed.name(), enable_auto_commit=False) as connector:
        stream = connector.stream(topic)

        def fail(*_outcome: Any) -> None:
            raise ValueError("mine")

        connector.commit_offsets_async(elsewhere, fail)
        connector.commit_offsets_async(elsewhere)
        connector.commit_offsets_async(elsewhere, lambda *outcome: outcomes.append(outcome))
        wait_for(lambda: outcomes, "the third callback")
        within = threading.Event()

        def commit_within(*_outcome: Any) -> None:
            stream.commit_offsets()
            within.set()

        connector.commit_offsets_async({TopicPartition(topic, 0): 1}, commit_within)
        assert within.wait(30), "a callback may commit"
    ((_, error),) = outcomes
    assert isinstance(error, CommitError)
    assert "there is no such partition" in str(error)
    ours = [record for record in caplog.records if record.name == "pyklient.consumer"]
    raised = [record for record in ours if record.exc_info]
    assert [record.getMessage() for record in raised] == [
        "the callback of commit_offsets_async raised an exception"
    ]
    assert "offsets were not committed in the background" in caplog.text


def test_wrong_arguments_are_errors_of_the_call(feed: Feed) -> None:
    topic = feed.topic(1)
    with connect(feed) as connector, pytest.raises(ConfigurationError, match="set group_id"):
        connector.commit_offsets_async()
    with connect(feed, feed.name()) as connector:
        connector.stream(topic)
        wrong: Any = "print"
        with pytest.raises(TypeError, match="callback must be a function"):
            connector.commit_offsets_async(callback=wrong)
        with pytest.raises(TypeError, match="offsets"):
            connector.commit_offsets_async(wrong)


def test_no_automatic_commit_overtakes_one_that_waits(feed: Feed) -> None:
    topic, group = feed.topic(1, *"abc"), feed.name()
    called, go_on = threading.Event(), threading.Event()

    def hold(*_outcome: Any) -> None:
        called.set()
        go_on.wait(60)

    with connect(feed, group, auto_commit_interval_ms=20, heartbeat_interval_ms=20) as connector:
        stream = connector.stream(topic)
        assert len(list(islice(stream, 2))) == 2
        connector.commit_offsets_async(callback=hold)
        assert called.wait(30)
        assert next(iter(stream)).value == b"c"
        connector.commit_offsets_async(callback=lambda *_: None)
        threading.Event().wait(0.2)
        assert feed.committed(group, topic) == [2], "the automatic commit waits"
        go_on.set()
        wait_for(lambda: feed.committed(group, topic) == [3], "the commits after it")


def nothing(_queued: Any) -> dict[TopicPartition, ToCommit]:
    return {}


def test_commits_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()

    def commit(_wanted: Mapping[TopicPartition, ToCommit], _deadline: float) -> None:
        go_on.wait(60)

    monkeypatch.setattr("pyklient.consumer.commit.background_commits._MOST_WAITING", 3)
    commits = BackgroundCommits(commit, threading.Lock())
    for _ in range(3):
        commits.put(nothing, 5.0, None)
    with pytest.raises(KafkaTimeoutError, match="3 earlier commits are still waiting"):
        commits.put(nothing, 0.02, None)
    assert not commits.wait(0.01, for_callbacks=False)
    go_on.set()
    assert commits.wait(30.0, for_callbacks=True)
    commits.end()
    commits.join(30.0)


def test_neither_an_unexpected_error_nor_an_exit_in_a_callback_stops_later_commits(
    caplog: pytest.LogCaptureFixture,
) -> None:
    errors: list[KafkaError | None] = []
    failures: list[BaseException] = [ValueError("mine"), SystemExit(1)]

    def commit(_wanted: Mapping[TopicPartition, ToCommit], _deadline: float) -> None:
        if failures:
            raise failures.pop(0)

    def leave(_offsets: Any, error: KafkaError | None) -> None:
        errors.append(error)
        raise SystemExit(1)

    commits = BackgroundCommits(commit, threading.Lock())
    for _ in range(4):
        commits.put(nothing, 5.0, leave)
    # A call of ``commits.wait`` during a callback would make a commit in this thread, which raises its exit.
    wait_for(lambda: len(errors) == 4, "the callbacks")
    assert commits.wait(30.0, for_callbacks=True)
    assert ["mine" in str(errors[0]), "SystemExit" in str(errors[1]), *errors[2:]] == [True, True, None, None]
    assert caplog.text.count("the callback of commit_offsets_async raised an exception") == 4
    assert caplog.text.count("a commit in the background raised an unexpected exception") == 2
    commits.end()
    commits.join(30.0)


def test_a_commit_that_was_queued_when_its_thread_did_not_start_is_made_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[float] = []
    commits = BackgroundCommits(lambda _wanted, deadline: made.append(deadline), threading.Lock())

    def interrupt(_thread: threading.Thread) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", interrupt)
        with pytest.raises(KeyboardInterrupt):
            commits.put(nothing, 5.0, None)
    assert commits.wait(30.0, for_callbacks=True)
    assert len(made) == 1
    commits.end()
    commits.join(30.0)


def test_a_callback_that_waits_for_commits_makes_those_behind_it_in_order() -> None:
    made, told, deadlines = list[str](), list[str](), list[float]()
    first, second = (
        {TopicPartition(name, 0): ToCommit(OffsetAndMetadata(1), 1)} for name in ("first", "second")
    )
    held, ended = threading.Event(), threading.Event()

    def commit(wanted: Mapping[TopicPartition, ToCommit], deadline: float) -> None:
        held.wait(60)
        deadlines.append(deadline)
        made.extend(each.topic for each in wanted)

    def wait_within(*_outcome: Any) -> None:
        assert commits.wait(30.0, for_callbacks=True)
        assert made == ["first", "second"]
        told.append("first")

    def tell_second(*_outcome: Any) -> None:
        told.append("second")
        ended.set()

    commits = BackgroundCommits(commit, threading.Lock())
    commits.put(lambda _queued: first, 500.0, wait_within)
    commits.put(lambda _queued: second, 500.0, tell_second)
    held.set()
    assert ended.wait(30)
    assert told == ["first", "second"]
    assert deadlines[0] - deadlines[1] > 400, "the second commit ends with the time that the callback waits"
    commits.end()
    commits.join(30.0)


def test_a_short_wait_while_a_callback_runs_does_not_shorten_the_time_of_earlier_commits() -> None:
    told, attempts = list[KafkaError | None](), list[float]()
    called, go_on = threading.Event(), threading.Event()

    def commit(wanted: Mapping[TopicPartition, ToCommit], deadline: float) -> None:
        if wanted:
            attempts.append(deadline)
            if len(attempts) == 1:
                threading.Event().wait(max(0.0, deadline - time.monotonic()))
                raise KafkaTimeoutError("the coordinator did not answer in time")

    def hold(*_outcome: Any) -> None:
        called.set()
        assert go_on.wait(30)

    commits = BackgroundCommits(commit, threading.Lock())
    commits.put(nothing, 500.0, hold)
    assert called.wait(30)
    wanted = {TopicPartition("t", 0): ToCommit(OffsetAndMetadata(1), 1)}
    commits.put(lambda _queued: wanted, 500.0, lambda _offsets, error: told.append(error))
    while not attempts:  # on a busy machine, the time may be over before the attempt has begun
        assert not commits.wait(0.02, for_callbacks=False)
    go_on.set()
    wait_for(lambda: told == [None], "the commit that was made again")
    assert attempts[1] - attempts[0] > 400, "the second attempt has the time of the commit itself"
    commits.end()
    commits.join(30.0)


def test_a_commit_after_the_end_is_an_error_and_those_before_are_made() -> None:
    made, told = list[float](), list[KafkaError | None]()
    commits = BackgroundCommits(lambda _wanted, deadline: made.append(deadline), threading.Lock())
    commits.put(nothing, 5.0, lambda _offsets, error: told.append(error))
    commits.end()
    with pytest.raises(ClosedError, match="has been closed"):
        commits.put(nothing, 5.0, lambda _offsets, error: told.append(error))
    commits.join(30.0)
    assert (len(made), told) == (1, [None])


def test_closing_in_a_callback_commits_what_was_read(feed: Feed) -> None:
    topic, group, closed = feed.topic(1, *"abc"), feed.name(), threading.Event()
    connector = connect(feed, group, auto_commit_interval_ms=3_600_000)
    stream = connector.stream(topic)
    assert len(list(islice(stream, 3))) == 3

    def close(*_outcome: Any) -> None:
        connector.close(timeout=5.0)
        closed.set()

    connector.commit_offsets_async({TopicPartition(topic, 0): 1}, close)
    assert closed.wait(30)
    assert feed.committed(group, topic) == [3]


def test_a_callback_may_wait_for_a_rebalance_while_more_commits_wait(feed: Feed) -> None:
    topic, group = feed.topic(2, *"abcd"), feed.name()
    feed.send(topic, "abcd", partition=1)
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    called, revoked, told = threading.Event(), threading.Event(), list[Outcome]()

    class Revoked(ConsumerRebalanceListener):
        def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
            if partitions:
                revoked.set()

    def wait_for_rebalance(*_outcome: Any) -> None:
        called.set()
        assert revoked.wait(20)

    options = {"session_timeout_ms": 30_000, "auto_commit_interval_ms": 3_600_000}
    with connect(feed, group, client_id="a", **options) as connector:
        connector.set_rebalance_listener(Revoked())
        connector.stream(topic)
        connector.commit_offsets_async({zero: 1}, wait_for_rebalance)
        assert called.wait(30)
        connector.commit_offsets_async({zero: 2}, lambda *outcome: told.append(outcome))
        connector.commit_offsets_async({one: 3}, lambda *outcome: told.append(outcome))
        with connect(feed, group, client_id="b", **options) as other:
            joining = threading.Thread(target=other.stream, args=(topic,))
            joining.start()
            assert revoked.wait(30), "the rebalance makes the commits for which it waits"
            joining.join(30)
            wait_for(lambda: len(told) == 2, "the callbacks of the other commits")
    assert told == [({zero: OffsetAndMetadata(2)}, None), ({one: OffsetAndMetadata(3)}, None)]
    assert feed.committed(group, topic, 2) == [2, 3]


def test_who_waits_while_a_callback_runs_makes_each_commit_once_and_an_interrupted_one_fails() -> None:
    made, told = list[str](), list[KafkaError | None]()
    called, go_on, interrupts = threading.Event(), threading.Event(), ["second"]

    def commit(wanted: Mapping[TopicPartition, ToCommit], _deadline: float) -> None:
        made.extend(each.topic for each in wanted)
        if made[-1:] == interrupts:
            raise KeyboardInterrupt

    def hold(*_outcome: Any) -> None:
        called.set()
        assert go_on.wait(30)

    def put(name: str, callback: CommitCallback) -> None:
        wanted = {TopicPartition(name, 0): ToCommit(OffsetAndMetadata(1), 1)}
        commits.put(lambda _queued: wanted, 5.0, callback)

    commits = BackgroundCommits(commit, threading.Lock())
    for name in ("first", "second", "third", "fourth"):
        put(name, hold if name == "first" else lambda _offsets, error: told.append(error))
        assert called.wait(30)
    with pytest.raises(KeyboardInterrupt):
        commits.wait(30.0, for_callbacks=False)
    assert commits.wait(30.0, for_callbacks=False)
    assert made == ["first", "second", "third", "fourth"]
    assert told == [], "callbacks come one after the other"
    go_on.set()
    assert commits.wait(30.0, for_callbacks=True)
    assert ["interrupted the commit" in str(told[0]), *told[1:]] == [True, None, None]
    commits.end()
    commits.join(30.0)
