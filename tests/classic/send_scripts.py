"""Scripts for asynchronous classic producers, and a player that runs them on pyklient's.

``tests/oracles/SendThreadOracle.java`` plays the same scripts on Kafka's producer, and describes the steps. A
script has two results: what the calls of the program came to, and the calls of the event handler.
"""

import threading
import time
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from pyklient.classic.callback_handler import CallbackHandler
from pyklient.classic.classic_producer import ClassicProducer
from pyklient.classic.event_handler import EventHandler
from pyklient.classic.producer_config import ClassicProducerConfig
from pyklient.errors import ConfigurationError, ProducerClosedError, QueueFullError
from pyklient.kernel import KeyedMessage

__all__ = ["SCRIPTS", "Recorder", "Script", "play"]

_PATIENCE: Final = 20.0


class Script(NamedTuple):
    """A script: the settings of a producer, and steps with semicolons between them."""

    name: str
    steps: str
    queue: int = 10_000
    batch: int = 200
    time: int = 60_000
    timeout: int = -1
    type: str = "async"

    @property
    def line(self) -> str:
        """The script as the oracle reads it."""
        settings = {
            "producer.type": self.type,
            "queue.buffering.max.messages": self.queue,
            "batch.num.messages": self.batch,
            "queue.buffering.max.ms": self.time,
            "queue.enqueue.timeout.ms": self.timeout,
        }
        return " ".join(f"{name}={value}" for name, value in settings.items()) + "\t" + self.steps


TEN: Final = "1 2 3 4 5 6 7 8 9 10"

SCRIPTS: Final = (
    Script("row 27", f"hold;send s;handled 1;send {TEN};send 11;release;close", 10, 1, timeout=0),
    Script("row 28, 2 s", f"hold;send s;handled 1;send {TEN};send 11;release", 10, 1, timeout=2_000),
    Script(
        "row 28, without limit",
        f"hold;send s;handled 1;send {TEN};later 11;pause 2000;release;join;close",
        10,
        1,
    ),
    Script("row 29", f"send {TEN};handled 2;pause 50;close", batch=5),
    Script("row 30", "send 1 2;handled 1;close", batch=5, time=200),
    Script("row 31", "send 1 2 3;close;send 4", batch=5),
    Script("row 32, batch", "close", 10, 11),
    Script("row 32, type", "close", type="sometimes"),
    Script("nothing sent", "pause 50;close", time=20),
    Script("closed twice", "send 1;close;close"),
    Script(
        "the first that does not fit", "hold;send s;handled 1;send 1 2 3 4 5;release;close", 3, 1, timeout=0
    ),
    Script(
        "nothing after the first that does not fit",
        "hold;send s;handled 1;send 1 2;send 3;send 4;release;close",
        1,
        1,
        timeout=0,
    ),
    Script(
        "space again", "hold;send s;handled 1;send 1 2;send 3;release;handled 3;send 4;close", 2, 1, timeout=0
    ),
    Script("a handler that fails", "fail;send 1 2 3 4;handled 2;send 5 6;handled 3;close", batch=2),
    Script("a handler that fails at the end", "fail;send 1 2 3;close", batch=2),
    Script("a handler that is busy", "hold;send 1 2 3;handled 1;send 4 5 6 7 8;release;close", batch=3),
    Script(
        "busy for longer than the queue time",
        "hold;send 1;handled 1;send 2 3;pause 250;send 4;release;handled 2;close",
        batch=3,
        time=100,
    ),
    Script("each by itself", "send 1;send 2;send 3;close", batch=1),
    Script("a pause between two batches", "send 1;handled 1;send 2 3;handled 2;close", batch=5, time=100),
    Script("a full batch and a late one", "send 1 2 3;handled 1;send 4;handled 2;close", batch=3, time=150),
    Script("idle, then a message", "pause 250;send 1;handled 1;close", time=100),
    Script("closed while the queue is full", "hold;send s;handled 1;send 1 2 3;release in 200;close", 3, 1),
    Script("no queue time", "send 1;handled 1;send 2;handled 2;close", time=0),
    Script("one call with many batches", f"send {TEN} {TEN};close", batch=7),
)


class Recorder(EventHandler):
    """An event handler that records its calls, and holds or fails them as the script says."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.gate = threading.Event()
        self.gate.set()
        self.fails = False
        self._changed = threading.Condition()

    def record(self, call: str) -> None:
        """Add *call* to the calls."""
        with self._changed:
            self.calls.append(call)
            self._changed.notify_all()

    def handle(self, messages: Sequence[Any]) -> None:
        gate = self.gate
        self.record(" ".join(["handle", *(message.message for message in messages)]))
        assert gate.wait(_PATIENCE)
        if self.fails:
            raise RuntimeError("the script says so")

    def close(self) -> None:
        self.record("close")

    def wait(self, count: int) -> None:
        """Wait until there are *count* calls."""
        with self._changed:
            self._changed.wait_for(lambda: len(self.calls) >= count, _PATIENCE)


class _Player:
    """Plays the steps of one script. Each method is a step."""

    def __init__(self, producer: ClassicProducer, recorder: Recorder, outcomes: list[str]) -> None:
        self._producer = producer
        self._recorder = recorder
        self.outcomes = outcomes
        self._later: threading.Thread | None = None
        self._sent_later = ""

    def send(self, *values: str) -> None:
        self.outcomes.append(self._send(values))

    def later(self, *values: str) -> None:
        def send() -> None:
            self._sent_later = self._send(values)

        self._later = threading.Thread(target=send)
        self._later.start()

    def join(self) -> None:
        assert self._later is not None
        self._later.join(_PATIENCE)
        self.outcomes.append(f"later {self._sent_later}")

    def hold(self) -> None:
        self._recorder.gate = threading.Event()

    def release(self, *delay: str) -> None:
        if delay:
            threading.Timer(int(delay[1]) / 1000, self._recorder.gate.set).start()
        else:
            self._recorder.gate.set()

    def fail(self) -> None:
        self._recorder.fails = True

    def handled(self, count: str) -> None:
        self._recorder.wait(int(count))

    def pause(self, milliseconds: str) -> None:
        time.sleep(int(milliseconds) / 1000)

    def close(self) -> None:
        self._producer.close()
        self.outcomes.append(f"closed after {len(self._recorder.calls)}")

    def _send(self, values: Sequence[str]) -> str:
        began = time.monotonic()
        outcome = "sent"
        try:
            self._producer.send(*(KeyedMessage("topic", value) for value in values))
        except QueueFullError:
            outcome = "full"
        except ProducerClosedError:
            outcome = "closed"
        return outcome + (" waited" if time.monotonic() - began >= 1 else "")


def play(
    script: Script, recorder: Recorder | None = None, callback_handler: CallbackHandler | None = None
) -> str:
    """Play *script* on pyklient's producer. Return its results as the oracle writes them."""
    recorder = Recorder() if recorder is None else recorder
    outcomes: list[str] = []
    try:
        config = ClassicProducerConfig(
            metadata_broker_list="127.0.0.1:1",
            producer_type=script.type,  # type: ignore[arg-type]  # a script names a wrong one
            queue_buffering_max_messages=script.queue,
            batch_num_messages=script.batch,
            queue_buffering_max_ms=script.time,
            queue_enqueue_timeout_ms=script.timeout,
        )
    except ConfigurationError:
        return "InvalidConfigException\t"
    with ClassicProducer(config, callback_handler=callback_handler, event_handler=recorder) as producer:
        player = _Player(producer, recorder, outcomes)
        for step in script.steps.split(";"):
            name, *words = step.split()
            getattr(player, name)(*words)
    return "; ".join(outcomes) + "\t" + "; ".join(recorder.calls)
