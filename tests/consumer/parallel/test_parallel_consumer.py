"""``connector.parallel`` on a broker: workers, errors, the end of a run, rebalances and commits."""

import os
import signal
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from pyklient import Message, TopicPartition
from pyklient.consumer.consumer_connector import ConsumerConnector
from pyklient.consumer.parallel import completed_offsets, worker_process
from pyklient.consumer.parallel.parallel_consumer import ParallelConsumer
from pyklient.consumer.topic_filters.topic_filter import Whitelist
from pyklient.errors import ClosedError, ConfigurationError, MessageStreamsExistError, WorkerProcessError
from pyklient.kernel import encode_batch
from pyklient.protocol.records import NewRecord
from pyklient.protocol.records.layout import BATCH_SIZE
from tests.consumer.feed import Feed, wait_for
from tests.consumer.group.test_groups import connect, held
from tests.consumer.parallel import handlers

PARALLEL: dict[str, Any] = {"auto_commit_interval_ms": 20, "consumer_timeout_ms": -1}


def send(feed: Feed, topic: str, *pairs: tuple[str | None, str], partition: int = 0) -> None:
    """Append records with these keys and values."""
    records = [
        NewRecord(0, None if key is None else key.encode(), value.encode(), ()) for key, value in pairs
    ]
    feed.append(topic, encode_batch(records), partition)


def stored(connector: ConsumerConnector, topic: str, partition: int = 0) -> tuple[int, list[range]] | None:
    """Return the committed offset, and the completed offsets in its metadata."""
    where = TopicPartition(topic, partition)
    found = connector._store.fetch([where], 10)[where]
    return None if found is None else (found.offset, completed_offsets.decode(found.offset, found.metadata))


class Running:
    """A ParallelConsumer that runs in a thread of its own."""

    def __init__(self, consumer: ParallelConsumer) -> None:
        self.consumer = consumer
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self.consumer.run()
        except BaseException as error:
            self.error = error

    def join(self) -> None:
        self._thread.join(30)
        assert not self._thread.is_alive()

    @property
    def ended(self) -> bool:
        return not self._thread.is_alive()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.consumer.stop()
        self.join()


class Gates:
    """A handler that notes what it handles, and keeps some messages until the test opens their gate."""

    def __init__(self, *closed: str) -> None:
        self.begun: list[str] = []
        self.done: list[str] = []
        self._gates = {value: threading.Event() for value in closed}

    def __call__(self, message: Message) -> None:
        assert message.value is not None
        value = message.value.decode()
        self.begun.append(value)
        if (gate := self._gates.get(value)) is not None:
            assert gate.wait(20)
        self.done.append(value)

    def open(self, value: str) -> None:
        self._gates[value].set()


def test_other_keys_go_on_while_a_handler_waits_and_come_again_to_nobody(feed: Feed) -> None:
    topic, group = feed.topic(), feed.name()
    send(feed, topic, ("a", "a1"), ("b", "b1"), ("a", "a2"), ("b", "b2"), (None, "x"), ("c", "c1"))
    gates = Gates("a1", "b2")
    with connect(feed, group, **PARALLEL) as connector:
        with Running(connector.parallel(topic, gates, workers=4)) as running:
            wait_for(lambda: sorted(gates.done) == ["b1", "c1", "x"], "the messages that wait for nothing")
            wait_for(lambda: sorted(gates.begun) == ["a1", "b1", "b2", "c1", "x"], "the next one of a key")
            wait_for(lambda: stored(connector, topic) == (0, [range(1, 2), range(4, 6)]), "the commit")
            gates.open("b2")
            wait_for(
                lambda: stored(connector, topic) == (0, [range(1, 2), range(3, 6)]),
                "a commit of metadata alone",
            )
            running.consumer.stop()
            gates.open("a1")
        assert running.error is None
        assert "a2" not in gates.begun
    again = Gates()
    with connect(feed, group, **PARALLEL) as connector:
        assert stored(connector, topic) == (2, [range(3, 6)])
        with Running(connector.parallel([topic], again)):
            wait_for(lambda: again.done == ["a2"], "the message that nobody handled")
            wait_for(lambda: stored(connector, topic) == (6, []), "the commit")


def test_an_exception_of_a_handler_ends_the_run_and_its_message_comes_again(feed: Feed) -> None:
    topic, group = feed.topic(), feed.name()
    send(feed, topic, ("a", "a1"), ("b", "bad"), ("c", "c1"), ("b", "b2"))
    gates = Gates("a1")

    def handle(message: Message) -> None:
        if message.value == b"bad":
            wait_for(lambda: "a1" in gates.begun, "another handler")
            raise LookupError("no account")
        gates(message)

    with connect(feed, group, **PARALLEL) as connector:
        running = Running(connector.parallel(topic, handle, workers=2))
        with running:
            wait_for(lambda: running.consumer._error is not None, "the exception")
            assert not running.ended, "it waits for the handlers that run"
            gates.open("a1")
            running.join()
        assert isinstance(running.error, LookupError)
        assert running.error.__notes__ == [f"message: {topic}-0 at offset 1"]
        assert "b2" not in gates.begun
    again = Gates()
    with connect(feed, group, **PARALLEL) as connector, Running(connector.parallel(topic, again, workers=1)):
        left = [each for each in ("bad", "c1", "b2") if each not in gates.done]
        wait_for(lambda: sorted(again.done) == sorted(left), f"{left} again")


def test_a_message_whose_error_is_handled_is_done(feed: Feed) -> None:
    topic, group = feed.topic(), feed.name()
    send(feed, topic, ("a", "bad"), ("a", "good"))
    failed: list[tuple[bytes | None, str]] = []
    done: list[bytes | None] = []

    def handle(message: Message) -> None:
        if message.value == b"bad":
            raise LookupError("no account")
        done.append(message.value)

    def note(message: Message, error: Exception) -> None:
        failed.append((message.value, str(error)))

    with connect(feed, group, **PARALLEL) as connector:
        with Running(connector.parallel(topic, handle, on_error=note)) as running:
            wait_for(lambda: done, "the second message")
        assert running.error is None
    assert (failed, done) == ([(b"bad", "no account")], [b"good"])
    assert feed.committed(group, topic) == [2]


def test_the_run_ends_with_the_exception_of_the_error_handler(feed: Feed) -> None:
    topic, group = feed.topic(1, "one"), feed.name()

    def fail(message: Message, error: Exception) -> None:
        raise ConnectionError("the dead-letter topic is away") from error

    with connect(feed, group, **PARALLEL) as connector:
        consumer = connector.parallel(topic, handlers.fail, on_error=fail)
        with pytest.raises(ConnectionError) as caught:
            consumer.run()
        assert isinstance(caught.value.__cause__, LookupError)
    assert feed.committed(group, topic) in ([None], [0])


def test_processes_handle_messages_and_raise_the_handlers_exceptions_here(feed: Feed, tmp_path: Path) -> None:
    topic, group = feed.topic(), feed.name()
    path = tmp_path / "handled"
    path.touch()
    send(feed, topic, *((key, f"{path} {key}") for key in "abcdefgh"))
    with (
        connect(feed, group, **PARALLEL) as connector,
        Running(connector.parallel(topic, handlers.write_pid, workers=2, processes=True)),
    ):
        wait_for(lambda: len(path.read_text().split()) == 16, "all messages")
    lines = [line.split() for line in path.read_text().splitlines()]
    assert sorted(text for _, text in lines) == list("abcdefgh")
    assert len({pid for pid, _ in lines}) <= 2
    assert feed.committed(group, topic) == [8]


@pytest.mark.parametrize(
    ("handler", "value", "error", "text"),
    [
        (handlers.fail, "x", LookupError, "no account"),
        (handlers.fail_strangely, "x", WorkerProcessError, "strange"),
        (handlers.die, "die", WorkerProcessError, "exit code 3; the next message starts another process"),
    ],
)
def test_an_error_in_a_process_belongs_to_its_message(
    feed: Feed, handler: Callable[[Message], None], value: str, error: type[Exception], text: str
) -> None:
    topic, group = feed.topic(), feed.name()
    send(feed, topic, ("a", value), ("a", value))
    errors: list[Exception] = []

    def note(message: Message, error: Exception) -> None:
        errors.append(error)

    with (
        connect(feed, group, **PARALLEL) as connector,
        Running(connector.parallel(topic, handler, workers=1, processes=True, on_error=note)),
    ):
        wait_for(lambda: len(errors) == 2, "both errors")
    assert [type(each) for each in errors] == [error, error]
    assert text in str(errors[0])
    assert feed.committed(group, topic) == [2]


def test_closing_the_connector_waits_for_what_handlers_have_in_hand(feed: Feed) -> None:
    topic, group = feed.topic(), feed.name()
    send(feed, topic, ("a", "a1"), ("a", "a2"), ("b", "b1"))
    gates = Gates("a1")
    connector = connect(feed, group, **PARALLEL)
    with Running(connector.parallel(topic, gates)) as running:
        wait_for(lambda: gates.done == ["b1"], "the other key")
        closing = threading.Thread(target=connector.close)
        closing.start()
        wait_for(lambda: connector._ownership.rebalancing, "the connector to give its partitions back")
        assert closing.is_alive()
        gates.open("a1")
        closing.join(30)
        running.join()
    assert gates.begun == ["a1", "b1"] or gates.begun == ["b1", "a1"]
    again = Gates()
    with connect(feed, group, **PARALLEL) as connector, Running(connector.parallel(topic, again)):
        wait_for(lambda: again.done == ["a2"], "the message that nobody had in hand")


def test_a_handler_that_closes_the_connector_is_not_waited_for_but_all_others_are(feed: Feed) -> None:
    topic, group = feed.topic(), feed.name()
    send(feed, topic, ("a", "a1"), ("b", "b1"), ("c", "c1"))
    gates, took = Gates("b1"), 0.0
    options = {**PARALLEL, "auto_commit_interval_ms": 60_000}

    def handle(message: Message) -> None:
        nonlocal took
        if message.value == b"c1":
            wait_for(lambda: sorted(gates.begun) == ["a1", "b1"], "the other handlers")
            threading.Timer(0.3, gates.open, ["b1"]).start()
            began = time.monotonic()
            connector.close(timeout=60)
            took = time.monotonic() - began
        else:
            gates(message)

    connector = connect(feed, group, **options)
    with Running(connector.parallel(topic, handle, workers=3)) as running:
        running.join()
    assert running.error is None
    assert sorted(gates.done) == ["a1", "b1"]
    assert 0.3 <= took < 18, "the handler of b1 was waited for, and that of c1 was not"
    assert feed.committed(group, topic) == [2]
    again = Gates()
    with connect(feed, group, **PARALLEL) as connector, Running(connector.parallel(topic, again)):
        wait_for(lambda: again.done == ["c1"], "the message whose handler has closed the connector")


def test_closing_does_not_wait_for_ever_and_commits_what_is_done(feed: Feed) -> None:
    topic, group = feed.topic(), feed.name()
    send(feed, topic, ("a", "a1"), ("b", "b1"))
    gates = Gates("a1")
    connector = connect(feed, group, **{**PARALLEL, "auto_commit_interval_ms": 60_000})
    with Running(connector.parallel(topic, gates)):
        wait_for(lambda: gates.done == ["b1"], "the other key")
        connector.close(timeout=3)
        assert gates.done == ["b1"]
        with connect(feed, group, enable_auto_commit=False) as other:
            other.stream(topic)
            assert stored(other, topic) == (0, [range(1, 2)])
        gates.open("a1")


def test_a_rebalance_waits_for_messages_in_hand_and_gives_none_of_them_to_the_next_owner(feed: Feed) -> None:
    topic, group = feed.topic(2), feed.name()
    for partition in range(2):
        pairs = [("a", f"a1-{partition}"), ("b", f"b1-{partition}"), ("a", f"a2-{partition}")]
        send(feed, topic, *pairs, partition=partition)
    first, second = Gates("a1-0", "a1-1"), Gates()
    options = {**PARALLEL, "rebalance_timeout_ms": 10_000}
    with (
        connect(feed, group, client_id="a", **options) as one,
        Running(one.parallel(topic, first)),
        connect(feed, group, client_id="b", **options) as two,
    ):
        wait_for(lambda: sorted(first.done) == ["b1-0", "b1-1"], "the keys that wait for nothing")
        made: list[ParallelConsumer] = []
        joining = threading.Thread(target=lambda: made.append(two.parallel(topic, second)))
        joining.start()
        wait_for(lambda: one._ownership.rebalancing, "the rebalance")
        assert joining.is_alive()
        first.open("a1-0")
        first.open("a1-1")
        joining.join(30)
        with Running(made[0]):
            wait_for(lambda: len(first.done) + len(second.done) == 6, "all messages")
            assert len(held(one)) == len(held(two)) == 1
    assert sorted(first.done + second.done) == [f"{each}-{p}" for each in ("a1", "a2", "b1") for p in (0, 1)]
    assert feed.committed(group, topic, 2) == [3, 3]


def test_the_results_of_a_member_that_the_group_has_removed_are_dropped(feed: Feed) -> None:
    topic, group = feed.topic(), feed.name()
    send(feed, topic, ("a", "a1"), ("a", "a2"))
    gates = Gates("a1", "a2")
    with connect(feed, group, **PARALLEL) as connector, Running(connector.parallel(topic, gates)):
        wait_for(lambda: gates.begun == ["a1"], "the first message")
        assignment = connector._ownership.assignment
        assert assignment is not None
        feed.remove(group, assignment.identity.member_id)
        wait_for(lambda: connector._ownership.assignment not in (assignment, None), "the loss")
        wait_for(lambda: held(connector) == {0}, "the member to join again")
        gates.open("a1")
        # It was handed out again, because no commit tells that it is done; its key has waited for it.
        wait_for(lambda: gates.begun == ["a1", "a1", "a2"], "the same message again")
        wait_for(lambda: stored(connector, topic) == (1, []), "the commit")
        gates.open("a2")
    assert feed.committed(group, topic) == [2]


def test_a_member_whose_handlers_stand_still_leaves_the_group_until_they_go_on(feed: Feed) -> None:
    topic, group = feed.topic(), feed.name()
    send(feed, topic, ("a", "a1"), ("a", "a2"), ("b", "b1"))
    gates = Gates("a1")
    options = {**PARALLEL, "max_poll_interval_ms": 300}
    with (
        connect(feed, group, **options) as connector,
        Running(connector.parallel(topic, gates, workers=1, max_in_hand=1)),
    ):
        wait_for(lambda: gates.begun == ["a1"], "the first message")
        wait_for(lambda: feed.members(group) == [], "the member to leave")
        gates.open("a1")
        wait_for(lambda: set(gates.done) == {"a1", "a2", "b1"}, "all messages")
        wait_for(lambda: stored(connector, topic) == (3, []), "the commit")


def test_partitions_begin_where_the_caller_says(feed: Feed) -> None:
    topic = feed.topic(1, "a", "b", "c")
    gates = Gates()
    with (
        ConsumerConnector(feed.bootstrap_servers) as connector,
        Running(connector.parallel(topic, gates, start=1)),
    ):
        wait_for(lambda: sorted(gates.done) == ["b", "c"], "the messages from offset 1 on")


def test_without_automatic_commits_the_program_commits_what_is_done(feed: Feed) -> None:
    topic, group = feed.topic(), feed.name()
    send(feed, topic, ("a", "a1"), ("b", "b1"))
    gates = Gates("a1")
    with connect(feed, group, **PARALLEL, enable_auto_commit=False) as connector:
        with Running(connector.parallel(topic, gates)):
            wait_for(lambda: gates.done == ["b1"], "the other key")
            connector.commit_offsets()
            assert stored(connector, topic) == (0, [range(1, 2)])
            gates.open("a1")
            wait_for(lambda: len(gates.done) == 2, "both")
        connector.commit_offsets()
        assert stored(connector, topic) == (2, [])


def test_a_filter_selects_topics_and_no_group_is_needed(feed: Feed) -> None:
    name = feed.name()
    for suffix in "xy":
        feed.topic(1, suffix, name=f"{name}-{suffix}")
    gates = Gates()
    with (
        ConsumerConnector(feed.bootstrap_servers, auto_offset_reset="earliest") as connector,
        Running(connector.parallel(Whitelist(f"{name}-.*"), gates)),
    ):
        wait_for(lambda: sorted(gates.done) == ["x", "y"], "both topics")


def test_a_signal_handler_or_a_handler_may_stop_the_run(feed: Feed) -> None:
    topic, group = feed.topic(1, "one"), feed.name()

    def handle(message: Message) -> None:
        os.kill(os.getpid(), signal.SIGUSR1)

    with connect(feed, group, **PARALLEL) as connector:
        consumer = connector.parallel(topic, handle)
        before = signal.signal(signal.SIGUSR1, lambda *_: consumer.stop())
        try:
            consumer.run()
        finally:
            signal.signal(signal.SIGUSR1, before)
        with pytest.raises(ClosedError):
            consumer.run()
        with pytest.raises(MessageStreamsExistError):
            connector.parallel(topic, handle)
    assert feed.committed(group, topic) == [1]


def test_run_after_the_connector_was_closed_is_an_error(feed: Feed) -> None:
    topic = feed.topic()
    with connect(feed, feed.name()) as connector:
        consumer = connector.parallel(topic, print)
    with pytest.raises(ClosedError):
        consumer.run()


async def handle_later(*_: object) -> None:
    """A coroutine function, which a program passes by mistake."""


class HandlesLater:
    """An object whose calls make coroutines."""

    async def __call__(self, message: Message) -> None:
        pass


@pytest.mark.parametrize(
    ("topics", "options", "error", "text"),
    [
        ([], {}, ConfigurationError, "needs topics"),
        ([""], {}, ConfigurationError, "must not be empty"),
        ("t", {"workers": 0}, ConfigurationError, "workers"),
        ("t", {"max_in_hand": 0}, ConfigurationError, "max_in_hand"),
        ("t", {"order": "keys"}, ConfigurationError, "'key', 'partition', 'unordered'"),
        (None, {}, TypeError, "topics takes a list"),
        ("t", {"handler": 7}, TypeError, "takes a message"),
        ("t", {"on_error": 7}, TypeError, "on_error must be a function"),
        ("t", {"handler": handle_later}, TypeError, "^handler is a coroutine function"),
        ("t", {"handler": HandlesLater()}, TypeError, "^handler is a coroutine function"),
        ("t", {"on_error": handle_later}, TypeError, "^on_error is a coroutine function"),
        ("t", {"processes": 7}, TypeError, "processes"),
        ("t", {"processes": True, "handler": lambda message: None}, TypeError, "cannot be pickled"),
    ],
)
def test_wrong_arguments_are_named(
    feed: Feed, topics: str | Sequence[str], options: dict[str, Any], error: type[Exception], text: str
) -> None:
    with ConsumerConnector(feed.bootstrap_servers) as connector, pytest.raises(error, match=text):
        connector.parallel(topics, **{"handler": print, **options})


def test_a_worker_process_that_cannot_be_started_ends_the_run_with_the_error(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("no more processes")

    monkeypatch.setattr(worker_process, "WorkerProcess", refuse)
    with connect(feed, feed.name(), **PARALLEL) as connector:
        consumer = connector.parallel(feed.topic(1), handlers.write_pid, workers=2, processes=True)
        with Running(consumer) as running:
            wait_for(lambda: running.error is not None, "the end of the run")
    assert str(running.error) == "no more processes"


def test_a_batch_that_cannot_be_read_is_skipped_and_committed_past(feed: Feed) -> None:
    topic, group = feed.topic(1), feed.name()
    for texts in ("ab", "cd", "ef"):
        feed.send(topic, texts)
    feed.overwrite(topic, 1, BATCH_SIZE + 2, b"\xff")
    told: list[tuple[int, int]] = []
    handled: list[bytes] = []
    with connect(
        feed, group, on_corrupt=lambda each: told.append((each.first_offset, each.next_offset))
    ) as connector:
        with Running(connector.parallel(topic, lambda message: handled.append(message.value), workers=2)):
            wait_for(lambda: len(handled) == 4, "the messages before and after the batch")
        counts = connector.metrics()
        assert (counts.corrupt_batches, counts.skipped_offsets) == (1, 2)
    assert sorted(handled) == [b"a", b"b", b"e", b"f"]
    assert told == [(2, 4)]
    assert feed.committed(group, topic) == [6]
