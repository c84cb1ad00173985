"""The sender's thread: calls in order, no new batch missed, and an end in every case."""

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from pyklient.error_codes import ErrorCode
from pyklient.errors import KafkaError
from pyklient.producer.threads.sender_thread import SenderThread, SenderWork
from pyklient.producer.threads.timers import NEVER, Timed
from tests.net.scripted import HANG_UP, SILENCE
from tests.producer.script import (
    ONE_BY_ONE,
    TOPIC,
    LoseAnswer,
    ProduceBroker,
    Refuse,
    numbers,
    producing,
    wait_until,
)

pytestmark = pytest.mark.both_kernels


class Bell(Timed):
    """A timer that writes into the diary when it fires."""

    def __init__(self, diary: "Diary") -> None:
        self.diary = diary

    def on_timer(self) -> None:
        self.diary.rung.append((self, time.monotonic()))


class Diary(SenderWork):
    """Work that records the calls that it gets."""

    def __init__(self) -> None:
        self.rung: list[tuple[Timed, float]] = []
        self.steps = 0
        self.news = 0
        self.going = True
        self.full = False
        self.when_asked: list[Callable[[], None]] = []
        """Functions that are called when the work is asked whether it is full."""
        self.crash: list[BaseException | None] = []

    def has_new_batches(self) -> bool:
        return self.news > 0

    def is_full(self) -> bool:
        while self.when_asked:
            self.when_asked.pop()()
        return self.full

    def step(self) -> bool:
        self.steps += 1
        self.news = max(0, self.news - 1)
        return self.going

    def end(self, crash: BaseException | None) -> None:
        self.crash.append(crash)

    def stop(self) -> None:
        self.going = False


@pytest.fixture
def diary() -> Diary:
    return Diary()


@pytest.fixture
def sender(diary: Diary) -> Iterator[SenderThread]:
    sender = SenderThread("pyklient-producer test")
    sender.assign(diary)
    sender.start()
    yield sender
    sender.post(diary.stop)
    assert sender.join(30)


def wait_until_asleep(sender: SenderThread) -> None:
    """Return when *sender* sleeps. It sets the time at which it will wake before it releases its lock."""
    wait_until(lambda: sender._sleeps_until > 0 and not sender._lock.locked())


def on_thread(sender: SenderThread, call: Callable[[], None]) -> None:
    """Run *call* on the thread, and wait for its end."""
    done = threading.Event()

    def run() -> None:
        call()
        done.set()

    sender.post(run)
    assert done.wait(30)


def test_posted_calls_are_made_in_order_on_the_thread(sender: SenderThread) -> None:
    called: list[tuple[int, bool]] = []

    def call(number: int) -> None:
        called.append((number, sender.is_current()))

    for number in range(100):
        sender.post(partial(call, number))
    wait_until(lambda: len(called) == 100)
    assert called == [(number, True) for number in range(100)]
    assert not sender.is_current()


def test_post_and_run_makes_the_pass_itself_if_the_lock_is_free(sender: SenderThread, diary: Diary) -> None:
    wait_until_asleep(sender)
    before, called = diary.steps, []
    sender.post_and_run(lambda: called.append((threading.current_thread(), sender.is_current())))
    assert called == [(threading.current_thread(), True)]
    assert diary.steps == before + 1
    assert not sender.is_current()


def test_a_call_posted_during_a_pass_is_made_in_the_next_pass(sender: SenderThread) -> None:
    called: list[int] = []
    held, go_on = threading.Event(), threading.Event()

    def hold() -> None:
        sender.post_and_run(partial(called.append, 1))  # within the pass itself
        held.set()
        assert go_on.wait(30)
        called.append(0)

    sender.post(hold)
    assert held.wait(30)
    sender.post_and_run(partial(called.append, 2))
    sender.post(partial(called.append, 3))
    assert called == []
    go_on.set()
    wait_until(lambda: len(called) == 4)
    assert called == [0, 1, 2, 3]


def test_to_catch_up_waits_for_the_calls_of_a_pass_that_is_under_way(sender: SenderThread) -> None:
    held, go_on, called = threading.Event(), threading.Event(), []

    def hold() -> None:
        held.set()
        assert go_on.wait(30)
        called.append(1)

    sender.post(hold)
    assert held.wait(30)
    assert not sender.catch_up(0.01)
    go_on.set()
    assert sender.catch_up(30)
    assert called == [1]


def test_to_catch_up_does_not_wake_a_sender_with_nothing_to_do(sender: SenderThread, diary: Diary) -> None:
    wait_until_asleep(sender)
    sender.post_and_run(lambda: None)
    before = diary.steps
    for _ in range(100):
        assert sender.catch_up(0)
    assert diary.steps == before


def test_an_earlier_timer_set_in_a_pass_of_another_thread_is_kept(sender: SenderThread, diary: Diary) -> None:
    on_thread(sender, lambda: sender.timers.set(Bell(diary), time.monotonic() + 3_600))
    wait_until_asleep(sender)
    sender.post_and_run(lambda: sender.timers.set(Bell(diary), time.monotonic() + 0.02))
    wait_until(lambda: len(diary.rung) == 1)


@pytest.mark.parametrize("crash", [False, True])
def test_the_last_pass_may_be_made_by_another_thread(diary: Diary, crash: bool) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    sender = SenderThread("pyklient-producer test")
    sender.assign(diary)
    sender.start()
    wait_until_asleep(sender)
    sender.post_and_run(fail if crash else diary.stop)
    assert sender.join(30)
    assert [type(each) for each in diary.crash] == [ZeroDivisionError if crash else type(None)]
    sender.post_and_run(pytest.fail)


def test_no_call_is_missed_while_several_threads_make_passes(sender: SenderThread) -> None:
    total, rounds = [0], 2_000

    def count() -> None:
        total[0] += 1

    def work() -> None:
        for number in range(rounds):
            (sender.post_and_run if number % 3 else sender.post)(count)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_until(lambda: total[0] == 4 * rounds)


def test_timers_fire_when_they_are_due_and_only_as_last_set(sender: SenderThread, diary: Diary) -> None:
    early, moved, late = Bell(diary), Bell(diary), Bell(diary)
    start = time.monotonic()

    def set_timers() -> None:
        sender.timers.set(late, start + 0.5)
        sender.timers.set(moved, start + 0.01)
        sender.timers.set(moved, start + 3_600)
        sender.timers.set(early, start + 0.03)
        sender.timers.set(early, start + 0.02)
        sender.timers.set(early, start + 0.02)

    on_thread(sender, set_timers)
    wait_until(lambda: len(diary.rung) == 2)
    assert [target for target, _ in diary.rung] == [early, late]
    assert diary.rung[0][1] >= start + 0.02
    assert diary.rung[1][1] >= start + 0.5
    assert early.timer == late.timer == float("inf")


def test_timers_that_were_set_again_do_not_pile_up(sender: SenderThread, diary: Diary) -> None:
    bells = [Bell(diary) for _ in range(10)]

    def set_timers() -> None:
        for number in range(100_000):
            sender.timers.set(bells[number % 10], time.monotonic() + 3_600)

    on_thread(sender, set_timers)
    assert len(sender.timers) < 5_000


def test_it_wakes_for_what_is_due_before_its_timer_and_only_for_that(
    sender: SenderThread, diary: Diary
) -> None:
    on_thread(sender, lambda: sender.timers.set(Bell(diary), time.monotonic() + 3_600))
    wait_until_asleep(sender)
    before = diary.steps
    sender.wake(time.monotonic() + 7_200)
    assert diary.steps == before
    sender.wake(time.monotonic())
    wait_until(lambda: diary.steps > before)


def test_with_a_lookout_a_batch_that_is_due_later_does_not_wake_the_thread(diary: Diary) -> None:
    sender = SenderThread("pyklient-producer test", lookout=3_600)
    sender.assign(diary)
    sender.start()
    on_thread(sender, lambda: None)
    wait_until(lambda: 0 < sender._sleeps_until < NEVER)
    before = diary.steps
    sender.notify(time.monotonic() + 7_200)
    assert sender._wakeups.empty()
    assert diary.steps == before
    sender.notify(time.monotonic())
    wait_until(lambda: diary.steps > before)
    sender.post(diary.stop)
    assert sender.join(30)


def test_a_lookout_ends(diary: Diary) -> None:
    sender = SenderThread("pyklient-producer test", lookout=0.001)
    sender.assign(diary)
    sender.start()
    on_thread(sender, lambda: None)
    wait_until(lambda: sender._sleeps_until == NEVER)
    sender.post(diary.stop)
    assert sender.join(30)


def test_while_the_brokers_are_full_new_batches_cause_no_pass_and_none_is_missed(diary: Diary) -> None:
    nap = 0.05
    sender = SenderThread("pyklient-producer test", nap)

    def fill_up() -> None:
        diary.full = True

    sender.assign(diary)
    sender.start()
    on_thread(sender, fill_up)
    begin, before = time.monotonic(), diary.steps
    for _ in range(2_000):
        diary.news = 1
        sender.notify(time.monotonic())
        time.sleep(0.0001)
    wait_until(lambda: diary.news == 0)
    steps, naps = diary.steps - before, (time.monotonic() - begin) / nap
    assert steps <= naps + 2
    sender.post(diary.stop)
    assert sender.join(30)


@pytest.mark.parametrize("moment", ["before the pass that makes room", "after its step", "after it"])
def test_batches_added_while_the_brokers_are_full_are_seen_with_the_next_response(
    diary: Diary, moment: str
) -> None:
    sender = SenderThread("pyklient-producer test", nap=3_600)

    def arrive() -> None:
        diary.news = 1
        sender.notify(time.monotonic())

    def answered() -> None:
        diary.full = False
        if moment == "after its step":
            diary.when_asked.append(arrive)

    sender.assign(diary)
    sender.start()
    for _ in range(20):
        diary.full = True
        on_thread(sender, lambda: None)
        wait_until(lambda: not sender._listens)
        if moment == "before the pass that makes room":
            arrive()
        sender.post_and_run(answered)
        if moment == "after it":
            arrive()
        wait_until(lambda: not diary.news and not diary.when_asked)
    sender.post(diary.stop)
    assert sender.join(30)


def test_batches_added_before_the_thread_sleeps_are_not_missed(diary: Diary) -> None:
    """The batches were added while the thread was awake, so nothing wakes it for them."""
    diary.news = 5
    sender = SenderThread("pyklient-producer test")
    sender.assign(diary)
    sender.start()
    wait_until(lambda: diary.news == 0)
    assert diary.steps >= 5
    sender.post(diary.stop)
    assert sender.join(30)
    assert diary.crash == [None]


def test_a_crash_is_passed_to_the_work(diary: Diary, caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise ZeroDivisionError

    sender = SenderThread("pyklient-producer test")
    assert not sender.started
    assert sender.join(0)
    sender.assign(diary)
    sender.start()
    sender.post(fail)
    assert sender.join(30)
    assert isinstance(diary.crash[0], ZeroDivisionError)
    assert "failed unexpectedly" in caplog.text


def test_timers_that_are_set_again_do_not_pile_up_until_they_are_due(broker: ProduceBroker) -> None:
    with producing(broker, linger_ms=0, delivery_timeout_ms=2**31 - 1) as producer:
        for _ in range(3_000):
            producer.send(TOPIC, b"x").result(30)
        assert len(producer._thread.timers) < 2_000


def refuse_threads(monkeypatch: pytest.MonkeyPatch, *names: str) -> list[str]:
    """Prevent threads whose names begin with one of *names* from starting. Return the names of those that
    were prevented."""
    refused: list[str] = []
    start = threading.Thread.start

    def start_or_refuse(thread: threading.Thread) -> None:
        if thread.name.startswith(names):
            refused.append(thread.name)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", start_or_refuse)
    return refused


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(["pyklient-reader-"], id="readers"),
        pytest.param(["pyklient-producer-"], id="workers"),
        pytest.param(["pyklient-reader-", "pyklient-producer-"], id="both"),
    ],
)
@pytest.mark.parametrize("acks", ["all", 1, 0])
def test_records_are_delivered_in_order_where_a_limit_lets_no_other_thread_start(
    broker: ProduceBroker, monkeypatch: pytest.MonkeyPatch, names: list[str], acks: str | int
) -> None:
    refused = refuse_threads(monkeypatch, *names)
    with producing(broker, acks=acks, **ONE_BY_ONE) as producer:
        sent = [producer.send(TOPIC, value) for value in numbers(50)]
        assert not any(delivery.exception(20) for delivery in sent)
        assert refused
    wait_until(lambda: broker.stored[0] == numbers(50))


def test_a_failure_is_retried_and_a_time_out_kept_without_other_threads(
    broker: ProduceBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_threads(monkeypatch, "pyklient-reader-", "pyklient-producer-")
    broker.faults.extend([LoseAnswer(HANG_UP), LoseAnswer(SILENCE), Refuse(ErrorCode.NOT_ENOUGH_REPLICAS)])
    with producing(broker, request_timeout_ms=500, **ONE_BY_ONE) as producer:
        sent = [producer.send(TOPIC, value) for value in numbers(5)]
        assert [delivery.result(20).offset for delivery in sent] == list(range(5))
    assert broker.stored[0] == numbers(5)


def test_a_send_says_so_if_the_producers_thread_cannot_start_and_the_next_one_tries_again(
    broker: ProduceBroker,
) -> None:
    with producing(broker) as producer:
        with pytest.MonkeyPatch.context() as patch:
            refuse_threads(patch, "pyklient-producer")
            with pytest.raises(KafkaError, match="thread cannot be started: can't start new thread"):
                producer.send(TOPIC, b"refused")
        assert producer.send(TOPIC, b"x").result(30).offset == 0
    assert broker.stored[0] == [b"x"]
