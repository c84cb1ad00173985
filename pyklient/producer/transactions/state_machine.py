"""The state of a transactional producer, and the lock that a thread holds while it changes the state."""

import time
from threading import Lock
from types import TracebackType
from typing import NoReturn

from pyklient.errors import (
    KafkaError,
    KafkaTimeoutError,
    TransactionError,
    TransactionStateError,
    for_another,
)
from pyklient.producer.accumulate.accumulator import RecordAccumulator
from pyklient.producer.locks import new_transaction_lock
from pyklient.producer.threads.sender_thread import SenderThread
from pyklient.producer.transactions.states import ENDED, TRANSITIONS, Event, State
from pyklient.producer.transactions.transaction import Transaction

__all__ = ["StateMachine"]

_ADVICE = {
    State.NEW: "no transaction is open; call begin_transaction first",
    State.READY: "no transaction is open; call begin_transaction first",
    State.OPEN: "a transaction is open; commit or abort it first",
    State.COMMITTING: "the transaction is being committed",
    State.ABORTING: "the transaction is being aborted",
    State.FAILED: "the transaction has failed; call abort_transaction first",
    State.UNCONFIRMED: "the last commit is not confirmed; call commit_transaction again first",
}


class StateMachine:
    """The state of the producer that has *transaction*. The producer accepts records only in the state OPEN.

    *max_block* is the longest time in seconds for which a call waits by default.
    """

    def __init__(
        self,
        transaction: Transaction,
        accumulator: RecordAccumulator,
        thread: SenderThread,
        max_block: float,
    ) -> None:
        self.state = State.NEW
        self._transaction = transaction
        self._accumulator = accumulator
        self._thread = thread
        self._max_block = max_block
        self._lock = new_transaction_lock()
        self._error: TransactionError | None = None
        """The error of a producer that was fenced, or that cannot continue."""
        self._send_errors = {state: self._outside("send", state) for state in State}
        """For each state, the error that ``send`` raises in this state."""
        accumulator.hold(self._send_errors[self.state])

    def call(self, name: str, timeout: float | None) -> "_Call":
        """Return a context manager that holds the transaction lock for one call of the method *name*, and
        yields the deadline of the call.

        *timeout* is in seconds; None means *max_block*.
        """
        return _Call(self, self._lock, name, timeout)

    def enter(self, name: str, timeout: float | None) -> float:
        """Acquire the transaction lock for a call of the method *name*. Return the deadline of the call."""
        self._accumulator.raise_if_closed()
        if self._thread.is_current():
            raise TransactionStateError(
                f"{name} cannot be called in an on_delivery callback, because it would wait for the thread "
                "that runs the callback; call it in another thread"
            )
        seconds = self._max_block if timeout is None else timeout
        deadline = time.monotonic() + seconds
        if not self._lock.acquire(timeout=seconds):
            raise KafkaTimeoutError(
                f"{name} has waited for {seconds:.3g} s for another thread that begins or ends a "
                f"transaction; call {name} again"
            )
        try:
            if self.state is State.OPEN and self._transaction.failure is not None:
                self.move(Event.FAILURE)
        except BaseException:  # such as Ctrl-C: the call does not begin, and nobody else releases the lock
            self._lock.release()
            raise
        return deadline

    def require(self, name: str, *states: State) -> None:
        """Raise an error if the method *name* was called in a state that is not one of *states*."""
        if self._error is not None:
            raise for_another(self._error)
        if self.state not in states:
            raise self._outside(name, self.state)

    def move(self, event: Event) -> None:
        """Move to the state that follows *event*."""
        self.state = TRANSITIONS[self.state, event]
        if self.state is State.OPEN:
            self._accumulator.admit()
        elif self._error is not None:
            self._accumulator.hold(self._error)
        elif self.state is not State.FAILED:  # Transaction.fail has an error that says more
            self._accumulator.hold(self._send_errors[self.state])

    def fail(self, event: Event, cause: KafkaError, error: TransactionError) -> NoReturn:
        """Move to the state that follows *event*, and raise *error*, whose cause is *cause*."""
        if TRANSITIONS[self.state, event] in ENDED:
            self._error = error
            self._transaction.fail(cause)
            self._thread.wake(time.monotonic())
            self._accumulator.tracker.report()  # the error says more than the failures of the records
        elif event is Event.FAILURE:
            self._transaction.fail(cause)
        self.move(event)
        raise error from cause

    def _outside(self, name: str, state: State) -> TransactionStateError:
        """Return the error for a call of the method *name* that is not allowed in *state*."""
        return TransactionStateError(
            f"{name} is not possible now (transactional_id={self._transaction.transactional_id!r}): "
            f"{_ADVICE.get(state, state)}"
        )


class _Call:
    """A call that holds *lock*, the transaction lock of *machine*. This context manager takes less time than
    one that is made from a generator."""

    __slots__ = ("_lock", "_machine", "_name", "_timeout")

    def __init__(self, machine: StateMachine, lock: Lock, name: str, timeout: float | None) -> None:
        self._machine = machine
        self._lock = lock
        self._name = name
        self._timeout = timeout

    def __enter__(self) -> float:
        return self._machine.enter(self._name, self._timeout)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock.release()
