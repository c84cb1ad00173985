"""Other threads run while the compiled kernel checks a long batch."""

import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from pyklient.kernel import encode_batch
from pyklient.protocol.records import NewRecord
from tests.kernel.kernels import COMPILED


@pytest.fixture
def hour_of_the_interpreter() -> Iterator[None]:
    """A thread keeps the interpreter for an hour, unless it gives it up by itself."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(3600)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@pytest.mark.parametrize("decoder", [None, len])
def test_a_thread_that_waits_for_the_interpreter_runs_while_the_checksum_of_a_long_batch_is_computed(
    hour_of_the_interpreter: None, decoder: Callable[[bytes], int] | None
) -> None:
    data = encode_batch([NewRecord(1000, None, b"v" * 1_000_000)] * 4)
    go_on, ran = threading.Event(), threading.Event()

    def run() -> None:
        go_on.wait(60)
        ran.set()

    waiter = threading.Thread(target=run)
    waiter.start()
    go_on.set()
    awake = time.monotonic() + 0.1
    while time.monotonic() < awake:  # computes only, so the other thread wakes and waits
        pass
    assert not ran.is_set()
    for _ in range(1000):
        COMPILED.decode(data, "t", 0, 0, value_decoder=decoder)
        if ran.is_set():
            break
    assert ran.is_set()
    waiter.join(30)
