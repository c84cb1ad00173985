"""The end of a connector: loops, commits and threads, whoever closes it."""

import gc
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from pyklient import ConsumerConnector, Producer
from pyklient.consumer.fetch import start_lookup
from pyklient.errors import ClosedError
from pyklient.net.dialogue import Pause
from tests.consumer.feed import Feed, own_threads
from tests.consumer.group.test_groups import Reader
from tests.consumer.shutdown_order import record_shutdown
from tests.consumer.test_consumer_connector import connect
from tests.servers.fixtures import StartReference


def _until(condition: Any) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_closing_ends_a_loop_in_another_thread_and_commits_what_it_finished(feed: Feed) -> None:
    topic, group = feed.topic(1, "a", "b"), feed.name()
    seen: list[Any] = []
    connector = connect(feed, group, consumer_timeout_ms=-1)
    stream = connector.stream(topic)
    reader = threading.Thread(target=lambda: seen.extend(stream))
    reader.start()
    _until(lambda: len(seen) == 2)
    connector.shutdown()
    connector.close()
    reader.join(30)
    assert not reader.is_alive()
    assert feed.committed(group, topic) == [2]
    with pytest.raises(ClosedError):
        connector.commit_offsets()
    with pytest.raises(ClosedError, match="its ConsumerConnector has been closed"):
        list(stream)


def test_the_parts_of_a_connector_end_in_the_order_of_kafkas(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, group = feed.topic(1, "a"), feed.name()
    with connect(feed, group, auto_commit_interval_ms=60_000) as connector:
        reading = Reader(connector.stream(topic))
        _until(lambda: reading.seen)
        steps = record_shutdown(monkeypatch)
        connector.shutdown()
        connector.shutdown()
        monkeypatch.undo()
        reading.join()
    assert feed.committed(group, topic) == [1]
    ends = ("OffsetCommitRequest", "LeaveGroupRequest")
    assert [step for step in steps if step in ends or not step.endswith("Request")] == [
        "commits in the background end",
        "fetchers end",
        "streams end",
        "commits in the background end",
        "OffsetCommitRequest",
        "LeaveGroupRequest",
        "connections and session close",
        "fetchers end",
    ]


def test_closing_does_not_commit_what_another_thread_still_has_in_hand(feed: Feed) -> None:
    topic, group = feed.topic(1, "a", "b"), feed.name()
    got, go_on = threading.Event(), threading.Event()
    with connect(feed, group, session_timeout_ms=2_000, heartbeat_interval_ms=100) as connector:
        stream = connector.stream(topic)

        def work() -> None:
            for message in stream:
                if message.value == b"b":
                    got.set()
                    go_on.wait(60)

        reader = threading.Thread(target=work)
        reader.start()
        assert got.wait(30)
    assert feed.committed(group, topic) == [1]
    go_on.set()
    reader.join(30)


def test_closing_says_what_it_could_not_commit_because_the_coordinator_was_silent(
    start_reference: StartReference, caplog: pytest.LogCaptureFixture
) -> None:
    broker = start_reference()
    with Producer(broker.bootstrap_servers) as producer:
        for number in range(3):
            producer.send("clicks", b"%d" % number)
    connector = ConsumerConnector(
        broker.bootstrap_servers, group_id="g", auto_offset_reset="earliest", heartbeat_interval_ms=50
    )
    messages = iter(connector.stream("clicks"))
    next(messages), next(messages)
    broker.process.pause()
    time.sleep(0.5)  # a heartbeat is on its way now, and the commit cannot be tried before its answer
    try:
        connector.close(1.0)
    finally:
        broker.process.resume()
    assert "closed without committing all messages" in caplog.text
    assert "messages of 1 partition will be delivered again: clicks-0" in caplog.text


def test_closing_does_not_wait_for_the_offsets_at_which_reading_would_begin(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = threading.Event()

    def hanging(points: Any, isolation_level: int) -> Iterator[Pause]:
        asked.set()
        yield Pause(seconds=60.0)

    monkeypatch.setattr(start_lookup, "find_offsets", hanging)
    connector = connect(feed, feed.name(), session_timeout_ms=180_000)
    beginning = threading.Thread(target=connector.stream, args=(feed.topic(),), kwargs={"start": "end"})
    beginning.start()
    assert asked.wait(30)
    began = time.monotonic()
    connector.close(timeout=90)
    assert time.monotonic() - began < 20, "a third of the session is 60 s"
    beginning.join(30)
    assert not beginning.is_alive()


def test_closing_waits_for_another_thread_that_closes(feed: Feed) -> None:
    topic, released, go_on = feed.topic(1, "a"), threading.Event(), threading.Event()

    class Slow:
        def before_releasing_partitions(self, owned: dict[str, set[int]]) -> None:
            if owned:
                released.set()
                go_on.wait(60)

        def before_starting_fetchers(self, *_: object) -> None: ...

    before = own_threads()
    connector = connect(feed, feed.name())
    connector.set_rebalance_listener(Slow())
    connector.stream(topic)
    first, second = (threading.Thread(target=connector.close) for _ in range(2))
    first.start()
    assert released.wait(30)
    second.start()
    second.join(0.2)
    assert second.is_alive()
    go_on.set()
    second.join(30)
    assert not second.is_alive()
    assert not [each for each in own_threads() - before if each.name.startswith("pyklient-group")]


def test_a_listener_may_close_while_another_thread_does(feed: Feed) -> None:
    topic, connector = feed.topic(1, "a"), connect(feed, feed.name())

    class Closing:
        def before_releasing_partitions(self, owned: dict[str, set[int]]) -> None:
            if owned:
                connector.close(timeout=90)

        def before_starting_fetchers(self, *_: object) -> None: ...

    connector.set_rebalance_listener(Closing())
    connector.stream(topic)
    began = time.monotonic()
    connector.close(timeout=90)
    assert time.monotonic() - began < 20, "one would wait for the time-out of the other"


def test_a_loop_that_closes_while_another_thread_does_is_not_waited_for(feed: Feed) -> None:
    topic, group = feed.topic(1, "a", "b"), feed.name()
    connector = connect(feed, group, session_timeout_ms=20_000)
    stream = connector.stream(topic)
    closer = threading.Thread(target=connector.close, kwargs={"timeout": 90})
    began = time.monotonic()
    for _message in stream:
        closer.start()
        _until(lambda: "closed" in repr(connector))
        connector.close(timeout=90)
    closer.join(100)
    assert time.monotonic() - began < 20, "close() waits 80 s for a message in hand"
    assert feed.committed(group, topic) == [1]


def test_a_commit_callback_that_closes_while_another_thread_does_is_not_waited_for(feed: Feed) -> None:
    connector = connect(feed, feed.name(), enable_auto_commit=False)
    stream = connector.stream(feed.topic(1, "a"))
    next(iter(stream))
    closer = threading.Thread(target=connector.close, kwargs={"timeout": 90})

    def close_too(*_outcome: object) -> None:
        closer.start()
        _until(lambda: "closed" in repr(connector))
        connector.close(timeout=90)

    began = time.monotonic()
    connector.commit_offsets_async(callback=close_too)
    _until(lambda: closer.ident is not None)
    closer.join(100)
    assert time.monotonic() - began < 20, "both would wait for the time-out of close()"


@pytest.mark.parametrize("action", ["always", "error"])
def test_connectors_left_open_are_closed_at_exit_with_a_warning(feed: Feed, action: str) -> None:
    topic, group = feed.topic(1, "a"), feed.name()
    program = f"""
import time
from pyklient.consumer.consumer_connector import ConsumerConnector
unused = ConsumerConnector({feed.bootstrap_servers!r})
connector = ConsumerConnector({feed.bootstrap_servers!r}, group_id={group!r}, auto_offset_reset="earliest")
print(next(iter(connector.stream({topic!r}))).value, time.monotonic())
"""
    done = subprocess.run(
        [sys.executable, "-W", action, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    value, ending_at = done.stdout.split()
    assert value == "b'a'"
    assert "ResourceWarning" in done.stderr
    assert time.monotonic() - float(ending_at) < 20
    assert feed.committed(group, topic) == [0], "the message was in hand"


@pytest.mark.parametrize("grouped", [True, False])
def test_a_connector_that_nobody_holds_closes_with_a_warning(feed: Feed, grouped: bool) -> None:
    topic, group = feed.topic(1, "a", "b"), feed.name() if grouped else None
    before = own_threads()

    def look() -> bool:
        return any(message.value == b"b" for message in connect(feed, group).stream(topic))

    with pytest.warns(ResourceWarning, match="ConsumerConnector of group .* was never closed"):
        assert look()
    _until(lambda: not own_threads() - before)
    if group is not None:
        assert feed.committed(group, topic) == [1], "the last message was in hand"
        with connect(feed, group) as next_one:
            assert next(iter(next_one.stream(topic))).value == b"b"


def test_a_connector_that_nobody_holds_does_not_wait_for_the_offsets_at_which_reading_would_begin(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, group, asked = feed.topic(2), feed.name(), threading.Event()
    before = own_threads()

    def hanging(points: Any, isolation_level: int) -> Iterator[Pause]:
        asked.set()
        yield Pause(seconds=60.0)

    options = {"session_timeout_ms": 180_000, "enable_auto_commit": False}
    connector = connect(feed, group, **options)
    connector.stream(topic, start="end")
    with connect(feed, group, **options) as other:
        other.stream(topic, start="end")
        monkeypatch.setattr(start_lookup, "find_offsets", hanging)
    assert asked.wait(30), "this connector gets the partitions of the other one"
    began = time.monotonic()
    with pytest.warns(ResourceWarning, match="was never closed"):
        del connector
    _until(lambda: not own_threads() - before)
    assert time.monotonic() - began < 20, "a third of the session is 60 s"


def test_a_connector_that_a_function_drops_commits_and_leaves_before_the_program_ends(feed: Feed) -> None:
    topic, group = feed.topic(1, "a", "b"), feed.name()
    program = f"""
from pyklient.consumer.consumer_connector import ConsumerConnector
def main():
    options = dict(group_id={group!r}, auto_offset_reset="earliest")
    connector = ConsumerConnector({feed.bootstrap_servers!r}, **options)
    for message in connector.stream({topic!r}):
        if message.value == b"b":
            return
main()
"""
    subprocess.run([sys.executable, "-c", program], timeout=60, check=True)
    assert feed.committed(group, topic) == [1], "the last message was in hand"
    assert feed.members(group) == []


@pytest.mark.parametrize("held", ["stream", "loop", "batches", "connector"])
def test_a_connector_stays_open_for_whatever_the_user_holds_of_it(feed: Feed, held: str) -> None:
    topic, before = feed.topic(1, "a", "b"), own_threads()
    connector = connect(feed, feed.name())
    cores, stream = connector._streams, connector.stream(topic)
    uses: dict[str, Any] = {"stream": stream, "loop": iter(stream), "batches": stream.batches(1)}
    user: list[Any] = [{"connector": connector, **uses}[held]]
    del connector, stream, uses
    gc.collect()
    if held != "connector":
        assert len(list(islice(user[0], 2))) == 2
    if held == "stream":
        user[0].commit_offsets()
    assert "ended" not in repr(cores)
    with pytest.warns(ResourceWarning, match="was never closed"):
        user.clear()
    name = "pyklient-leader-lookup"
    _until(lambda: not [each for each in own_threads() - before if each.name.startswith(name)])
