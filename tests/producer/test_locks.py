"""Wakeups: one thread waits for a wakeup, and another thread sets it."""

import threading
import time

from pyklient.producer.locks import Wakeup


def test_a_wakeup_that_was_set_before_ends_the_next_wait_and_only_that() -> None:
    wakeup = Wakeup()
    wakeup.set()
    wakeup.set()
    assert wakeup.wait(0)
    assert not wakeup.wait(0)


def test_a_wait_ends_after_its_time_out() -> None:
    begin = time.monotonic()
    assert not Wakeup().wait(0.05)
    assert time.monotonic() - begin >= 0.05


def test_a_wakeup_ends_the_wait_of_another_thread() -> None:
    wakeup, woken = Wakeup(), threading.Event()

    def wait() -> None:
        assert wakeup.wait(None)
        woken.set()

    thread = threading.Thread(target=wait)
    thread.start()
    assert not woken.wait(0.02)
    wakeup.set()
    thread.join(30)
    assert woken.is_set()
