"""The events in the queue of a classic producer, in both kernels."""

import threading
import weakref
from collections import deque
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

CAPACITY = 5

steps = st.lists(
    st.tuples(st.just("send"), st.integers(0, 3))
    | st.tuples(st.just("add"), st.integers(0, 8))
    | st.tuples(st.just("drain"), st.integers(0, 6))
    | st.tuples(st.just("hold_below"), st.integers(0, 7))
    | st.tuples(st.just("limit"), st.integers(-1, CAPACITY)),
    max_size=40,
)


def sender_of(kernel: Any, declined: list[Any]) -> Any:
    """Return a sender with an empty buffer. It adds to *declined* what it passes to its slow method."""
    kind = type("Sender", (kernel.EventSender,), {"_send_slowly": lambda _, *some: declined.append(some)})
    sender = kind()
    sender._buffer = kernel.EventBuffer(CAPACITY, threading.RLock())
    return sender


@settings(max_examples=200)
@given(steps=steps)
@example(steps=[("hold_below", 7), ("send", 3), ("send", 3), ("add", 2)])  # a limit above the capacity
def test_events_leave_in_order_and_are_never_more_than_the_limit(
    kernel: Any, steps: list[tuple[str, int]]
) -> None:
    declined: list[Any] = []
    sender = sender_of(kernel, declined)
    buffer = sender._buffer
    model: deque[Any] = deque()
    limit = CAPACITY
    for number, (step, count) in enumerate(steps):
        messages = [kernel.KeyedMessage(f"{number}-{index}", b"") for index in range(count)]
        if step == "send":
            refused = len(declined)
            assert sender.send(*messages) is None
            if len(model) + count <= limit:
                model.extend(messages)
                assert len(declined) == refused
            else:
                assert declined[refused:] == [tuple(messages)]
        elif step == "add":
            fitting = messages[: max(0, CAPACITY - len(model))]
            assert buffer.add(messages) == len(fitting)
            model.extend(fitting)
        elif step == "drain":
            assert buffer.drain(count) == [model.popleft() for _ in range(min(count, len(model)))]
        elif step == "hold_below":
            assert buffer.hold_below(count) == (len(model) < count)
            limit = count - 1 if len(model) < count else limit
        else:
            buffer.limit = limit = count
        assert (len(buffer), buffer.limit) == (len(model), limit)


def test_a_queue_that_grows_and_shrinks_keeps_its_order(kernel: Any) -> None:
    sender = sender_of(kernel, [])
    buffer = sender._buffer = kernel.EventBuffer(1000, threading.RLock())
    model: deque[Any] = deque()
    for number, count in enumerate((40, 30, 50, 200, 1, 300, 9)):
        messages = [kernel.KeyedMessage(f"{number}-{index}", b"") for index in range(count)]
        buffer.add(messages[1:])
        sender.send(messages[0])
        model.extend([*messages[1:], messages[0]])
        assert buffer.drain(count // 2) == [model.popleft() for _ in range(count // 2)]
    assert buffer.drain(1000) == list(model)


def test_a_queue_holds_its_events_only_until_they_leave_it_or_it_is_freed(kernel: Any) -> None:
    messages = [type("Subclass", (kernel.KeyedMessage,), {})("t", b"a") for _ in range(3)]
    left = [weakref.ref(each) for each in messages]
    buffer = kernel.EventBuffer(CAPACITY, threading.RLock())
    buffer.add(messages)
    del messages[:]
    assert all(each() for each in left)
    buffer.drain(1)
    assert [bool(each()) for each in left] == [False, True, True]
    del buffer
    assert [each() for each in left] == [None] * 3


def test_what_is_no_keyed_message_is_declined_with_all_of_its_call(kernel: Any) -> None:
    other = type("Subclass", (kernel.KeyedMessage,), {})
    declined: list[Any] = []
    sender = sender_of(kernel, declined)
    message = kernel.KeyedMessage("t", b"a")
    calls = [(message, "text"), (None,), (other("t", b"a"),)]
    for call in calls:
        sender.send(*call)
    assert declined == calls
    assert not len(sender._buffer)
    sender._buffer = None
    sender.send(message)
    assert declined[-1] == (message,)


def test_messages_of_several_threads_are_neither_lost_nor_added_above_the_limit(kernel: Any) -> None:
    declined: list[Any] = []
    sender = sender_of(kernel, declined)
    buffer = sender._buffer = kernel.EventBuffer(1000, threading.RLock())
    buffer.limit = 900
    messages = [[kernel.KeyedMessage(thread, b"%d" % index) for index in range(400)] for thread in "012"]
    threads = [
        threading.Thread(target=lambda some=some: [sender.send(each) for each in some]) for some in messages
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (len(buffer), len(declined)) == (900, 300)
    taken = buffer.drain(2000)
    for name in "012":
        values = [int(each.message) for each in taken if each.topic == name]
        assert values == sorted(values)
