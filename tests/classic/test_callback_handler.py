"""The hooks of an asynchronous classic producer: when they are called, and what they change."""

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from pyklient.classic.callback_handler import CallbackHandler
from pyklient.classic.classic_producer import ClassicProducer
from pyklient.classic.producer_config import ClassicProducerConfig
from pyklient.classic.queue_item import QueueItem
from pyklient.errors import KafkaError
from pyklient.kernel import KeyedMessage
from tests.classic.send_scripts import Recorder, Script, play


class Hooks(CallbackHandler):
    """Records all hooks. ``called`` has those of the program's thread, and the recorder those of the send
    thread. ``changed`` maps an item's text, or None for the call without an item, to what a hook returns."""

    def __init__(self, recorder: Recorder, changed: Mapping[str | None, Sequence[str]] | None = None) -> None:
        self.called: list[str] = []
        self.recorder = recorder
        self.changed = changed or {}
        self.last: Sequence[str] = ()
        self.dropped: list[str] = []

    def init(self, properties: Mapping[str, str]) -> None:
        self.called.append(f"init {dict(properties)}")

    def before_enqueue(self, item: Any) -> Any:
        self.called.append(f"before_enqueue {item.message}")
        return item

    def after_enqueue(self, item: Any, added: bool) -> None:
        self.called.append(f"after_enqueue {item.message} {added}")

    def after_dequeuing_existing_data(self, item: Any | None) -> Sequence[Any]:
        text = None if item is None else item.message
        self.recorder.record(f"dequeued {text}")
        return messages(self.changed.get(text, () if text is None else (text,)))

    def last_batch_before_close(self) -> Sequence[Any]:
        self.recorder.record("last_batch_before_close")
        return messages(self.last)

    def close(self) -> None:
        self.recorder.record("close hooks")

    def on_dropped(self, items: Sequence[Any], error: BaseException) -> None:
        self.dropped.append(f"{' '.join(item.message for item in items)}: {error!r}")


def messages(texts: Sequence[str]) -> list[KeyedMessage]:
    return [KeyedMessage("topic", text) for text in texts]


def said(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Return what classic producers have logged."""
    return [record for record in caplog.records if record.name == "pyklient.producer"]


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def async_config(**options: Any) -> ClassicProducerConfig:
    return ClassicProducerConfig(metadata_broker_list="127.0.0.1:1", producer_type="async", **options)


def test_row_34_after_enqueue_sees_added_false_before_the_queue_is_full(recorder: Recorder) -> None:
    hooks = Hooks(recorder)
    script = Script("", "hold;send s;handled 2;send 1;send 2;release", queue=1, batch=1, timeout=0)
    assert play(script, recorder, hooks).split("\t")[0] == "sent; sent; full"
    assert hooks.called == [
        "init {}",
        "before_enqueue s",
        "after_enqueue s True",
        "before_enqueue 1",
        "after_enqueue 1 True",
        "before_enqueue 2",
        "after_enqueue 2 False",
    ]


def test_row_34_after_dequeuing_gets_none_when_the_queue_time_has_passed(recorder: Recorder) -> None:
    hooks = Hooks(recorder)
    play(Script("", "send 1 2;handled 4;close", batch=5, time=200), recorder, hooks)
    assert recorder.calls == [
        "dequeued 1",
        "dequeued 2",
        "dequeued None",
        "handle 1 2",
        "last_batch_before_close",
        "close",
        "close hooks",
    ]


def test_row_34_an_empty_list_drops_the_item_and_counts_for_no_batch(recorder: Recorder) -> None:
    hooks = Hooks(recorder, {"2": ()})
    play(Script("", "send 1 2 3;handled 4;close", batch=2), recorder, hooks)
    assert recorder.calls[:4] == ["dequeued 1", "dequeued 2", "dequeued 3", "handle 1 3"]
    assert hooks.dropped == []


def test_row_35_the_items_of_the_last_batch_are_appended_to_it(recorder: Recorder) -> None:
    hooks = Hooks(recorder)
    hooks.last = ("8", "9")
    play(Script("", "send 1;close", batch=5), recorder, hooks)
    assert recorder.calls == [
        "dequeued 1",
        "last_batch_before_close",
        "handle 1 8 9",
        "close",
        "close hooks",
    ]


def test_one_item_may_become_several_and_the_batch_is_as_long_as_they_are(recorder: Recorder) -> None:
    hooks = Hooks(recorder, {"1": ("1", "1a", "1b")})
    play(Script("", "send 1 2;close", batch=2), recorder, hooks)
    assert recorder.calls[:3] == ["dequeued 1", "handle 1 1a 1b", "dequeued 2"]


def test_items_that_a_hook_holds_back_are_sent_when_it_returns_them_for_none(recorder: Recorder) -> None:
    hooks = Hooks(recorder, {"1": (), None: ("held",)})
    play(Script("", "send 1;handled 3;close", batch=5, time=100), recorder, hooks)
    assert recorder.calls[:3] == ["dequeued 1", "dequeued None", "handle held"]


def test_before_enqueue_may_replace_the_item(recorder: Recorder) -> None:
    class Upper(Hooks):
        def before_enqueue(self, item: Any) -> Any:
            return KeyedMessage(item.topic, item.message.upper())

    play(Script("", "send a;close"), recorder, Upper(recorder))
    assert "handle A" in recorder.calls


@pytest.mark.parametrize("returned", [None, "text", [KeyedMessage("topic", "1")], QueueItem(b"1", "topic")])
def test_before_enqueue_that_returns_no_item_is_an_error_of_send(recorder: Recorder, returned: Any) -> None:
    class Wrong(Hooks):
        def before_enqueue(self, item: Any) -> Any:
            return returned

    producer = ClassicProducer(async_config(), callback_handler=Wrong(recorder), event_handler=recorder)
    with pytest.raises(TypeError, match=r"Wrong\.before_enqueue returned .* so the message was not sent"):
        producer.send(KeyedMessage("topic", "1"))
    producer.close()
    assert recorder.calls == ["last_batch_before_close", "close", "close hooks"]


def test_an_exception_of_before_enqueue_is_raised_by_send(recorder: Recorder) -> None:
    class Raising(Hooks):
        def before_enqueue(self, item: Any) -> Any:
            raise KeyError("before")

    producer = ClassicProducer(async_config(), callback_handler=Raising(recorder), event_handler=recorder)
    with pytest.raises(KeyError, match="before"):
        producer.send(KeyedMessage("topic", "1"))
    producer.close()


def fail(*_: Any) -> Any:
    raise KeyError("hook")


def leave(*_: Any) -> Any:
    raise SystemExit("hook")


def nothing(*_: Any) -> Any:
    return None


def text(*_: Any) -> Any:
    return ["text"]


@pytest.mark.parametrize("hook", [fail, leave, nothing, text])
def test_an_item_is_dropped_if_the_hook_after_dequeuing_fails_and_the_thread_goes_on(
    recorder: Recorder, hook: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    class Wrong(Hooks):
        def after_dequeuing_existing_data(self, item: Any | None) -> Sequence[Any]:
            if item is not None and item.message == "2":
                return hook(item)  # type: ignore[no-any-return]  # it returns what it must not
            return super().after_dequeuing_existing_data(item)

    hooks = Wrong(recorder)
    with ClassicProducer(async_config(), callback_handler=hooks, event_handler=recorder) as producer:
        producer.send(*messages("123"))
    assert "handle 1 3" in recorder.calls
    assert len(hooks.dropped) == 1
    assert hooks.dropped[0].startswith("2: ")
    assert producer.dropped_count == 1
    [logged] = said(caplog)
    wrong = "returned" if hook in (nothing, text) else "failed:"
    assert f"Wrong.after_dequeuing_existing_data {wrong} " in logged.message
    assert "1 message was dropped" in logged.message


@pytest.mark.parametrize("hook", [fail, leave, nothing, text])
@pytest.mark.parametrize(
    ("name", "sent"), [("after_dequeuing_existing_data", "handle 1"), ("last_batch_before_close", "handle 1")]
)
def test_a_hook_that_fails_without_an_item_drops_nothing(
    recorder: Recorder,
    name: str,
    sent: str,
    hook: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    original = Hooks.after_dequeuing_existing_data
    monkeypatch.setattr(
        Hooks,
        name,
        lambda self, *item: original(self, item[0]) if item and item[0] is not None else hook(),
    )
    hooks = Hooks(recorder)
    play(Script("", "send 1;handled 2;close", batch=5, time=50), recorder, hooks)
    assert sent in recorder.calls
    assert hooks.dropped == []
    assert said(caplog)
    wrong = "returned" if hook in (nothing, text) else "failed"
    assert all(f"Hooks.{name} {wrong}" in record.message for record in said(caplog))


@pytest.mark.parametrize(
    ("name", "hook"),
    [("after_enqueue", fail), ("close", fail), ("close", leave), ("on_dropped", fail), ("on_dropped", leave)],
)
def test_an_exception_of_a_hook_that_only_observes_is_logged_and_changes_nothing(
    recorder: Recorder,
    name: str,
    hook: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Hooks, name, hook)
    recorder.fails = name == "on_dropped"
    outcome = play(Script("", "send 1 2;close", batch=1), recorder, Hooks(recorder))
    assert outcome.startswith("sent; closed")
    assert [call for call in recorder.calls if call.startswith("handle")] == ["handle 1", "handle 2"]
    assert f"Hooks.{name} raised an exception" in [record.message for record in said(caplog)]
    assert all(record.levelno == logging.ERROR for record in said(caplog))


def test_an_exception_of_init_is_raised_to_the_caller_and_no_thread_starts(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Hooks, "init", fail)
    with pytest.raises(KeyError, match="hook"):
        ClassicProducer(async_config(), callback_handler=Hooks(recorder), event_handler=recorder)
    assert recorder.calls == ["close"]


def test_a_producer_whose_thread_cannot_start_closes_both_handlers(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    with pytest.raises(KafkaError, match="can't start new thread"):
        ClassicProducer(async_config(), callback_handler=Hooks(recorder), event_handler=recorder)
    assert sorted(recorder.calls) == ["close", "close hooks"]


@pytest.mark.parametrize("name", ["after_dequeuing_existing_data", "last_batch_before_close"])
def test_an_item_of_another_profile_is_an_error_of_the_hook_that_returns_it(
    recorder: Recorder, name: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Hooks, name, lambda *_: [QueueItem(b"1", "topic")])
    with ClassicProducer(
        async_config(), callback_handler=Hooks(recorder), event_handler=recorder
    ) as producer:
        producer.send(*messages("1"))
    assert recorder.calls[-2:] == ["close", "close hooks"]
    assert f"Hooks.{name} returned a list with QueueItem(" in caplog.text
    assert "but it must return a list of KeyedMessages" in caplog.text


def test_the_hooks_get_their_properties_and_the_event_handler_is_prepared_first(recorder: Recorder) -> None:
    order: list[str] = []

    class Prepared(Recorder):
        def init(self, properties: Mapping[str, str]) -> None:
            order.append(f"event handler {dict(properties)}")

    class PreparedHooks(Hooks):
        def init(self, properties: Mapping[str, str]) -> None:
            order.append(f"callback handler {dict(properties)}")

    config = async_config(callback_handler_props={"a": "1"}, event_handler_props={"b": "2"})
    ClassicProducer(config, callback_handler=PreparedHooks(recorder), event_handler=Prepared()).close()
    assert order == ["event handler {'b': '2'}", "callback handler {'a': '1'}"]


def test_what_was_given_up_is_counted_logged_and_told_to_on_dropped(
    recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    recorder.fails = True
    hooks = Hooks(recorder)
    with ClassicProducer(
        async_config(batch_num_messages=2), callback_handler=hooks, event_handler=recorder
    ) as producer:
        producer.send(*messages("123"))
    error = repr(RuntimeError("the script says so"))
    assert hooks.dropped == [f"1 2: {error}", f"3: {error}"]
    assert producer.dropped_count == 3
    assert [record.message for record in said(caplog)] == [
        f"Recorder.handle failed: {error}; 2 messages were dropped (2 in total since this producer was made)",
        f"Recorder.handle failed: {error}; 1 message was dropped (3 in total since this producer was made)",
    ]


def test_a_synchronous_producer_calls_no_hooks_and_says_so(
    recorder: Recorder, caplog: pytest.LogCaptureFixture
) -> None:
    hooks = Hooks(recorder)
    config = ClassicProducerConfig(metadata_broker_list="127.0.0.1:1")
    with ClassicProducer(config, callback_handler=hooks, event_handler=recorder) as producer:
        producer.send(KeyedMessage("topic", "1"))
    assert recorder.calls == ["handle 1", "close"]
    assert hooks.called == []
    assert "does not call the callback handler" in caplog.text


class Later(CallbackHandler):
    """Hooks with a coroutine function by mistake."""

    async def on_dropped(self, items: Sequence[Any], error: BaseException) -> None:  # type: ignore[override]  # the mistake that a test makes
        pass


def test_a_class_and_hooks_that_nobody_would_await_are_errors() -> None:
    make: Any = ClassicProducer
    with pytest.raises(TypeError, match=r"callback_handler takes .*; pass an object: CallbackHandler\(\)$"):
        make(async_config(), callback_handler=CallbackHandler)
    with pytest.raises(TypeError, match=r"^Later\.on_dropped is a coroutine function"):
        make(async_config(), callback_handler=Later())
