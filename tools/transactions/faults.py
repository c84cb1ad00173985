"""The faults that are injected into a chain, one at a time, and what they hit."""

import itertools
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from pyklient.protocol.messages import (
    EndTxnRequest,
    FetchRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    InitProducerIdRequest,
    JoinGroupRequest,
    OffsetFetchRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)
from pyklient.protocol.schema import ApiMessage
from tests.servers.process import wait_until
from tools.faults.plan import FAULTS, Action, Fault, FaultPlan
from tools.faults.proxy import FaultProxy
from tools.transactions.brokers import ROLES, Brokers
from tools.transactions.chain import PARTITIONS, Chain, Entry, Program
from tools.transactions.stage import FENCED

__all__ = ["NextRequest", "Faults"]

_PATIENCE: Final = 60.0
_IN_A_TRANSACTION: Final = (ProduceRequest, TxnOffsetCommitRequest, EndTxnRequest)
"""The requests that a stage sends only while its transaction is open."""
_REQUESTS: Final = (*_IN_A_TRANSACTION, *_IN_A_TRANSACTION, FetchRequest, HeartbeatRequest)
_STARTING: Final = (InitProducerIdRequest, FindCoordinatorRequest, JoinGroupRequest, OffsetFetchRequest)
"""The requests that a stage sends before its first transaction."""
_AT_A_START: Final = 0.4
"""The probability that a fault hits one of these requests."""
_LONGEST_HOLD: Final = 4.0
_STOPPED: Final = (3.5, 5.0)
"""The time for which a broker is stopped, in seconds: longer than its session, so that it loses its roles."""
_DOWN: Final = 1.0
_ABORTED: Final = ("lost", "aborted", "fenced")
_ERROR_CODE: Final = re.compile(r"\(([A-Z_]+), \d+\)")
_TEN: Final = (
    "connection",
    "connection",
    "connection",
    "stage killed in a transaction",
    "stage killed at any time",
    "broker killed",
    "broker stopped",
    "successor of a stopped stage",
    "owner beside a stopped stage",
    "rebalance",
)
"""The kinds of ten faults, which come in another order each time."""


class NextRequest(FaultPlan):
    """Lets a fault hit the next request of one kind."""

    def __init__(self) -> None:
        super().__init__({})
        self._armed: tuple[int, Fault] | None = None

    def arm(self, kind: type[ApiMessage], fault: Fault) -> None:
        """Let *fault* hit the next request of *kind*."""
        self._armed = kind.api_key, fault

    def take(self, api_key: int) -> Fault | None:
        """Return the fault that hits a request of kind *api_key*, or None."""
        if self._armed is None or self._armed[0] != api_key:
            return None
        _, fault = self._armed
        self._armed = None
        return fault


class Faults:
    """Injects faults, chosen by *dice*, into *chain* and its *brokers*. The stages connect through *proxy*,
    whose plan is *plan*."""

    def __init__(
        self, chain: Chain, brokers: Brokers, proxy: FaultProxy, plan: NextRequest, dice: random.Random
    ) -> None:
        self._chain, self._brokers, self._proxy, self._plan, self._dice = chain, brokers, proxy, plan, dice
        self._serial = itertools.count(1)
        self.hits = 0
        """The number of faults that have hit an open transaction."""
        self.zombies: Counter[str] = Counter()
        """The ends of the transactions of stopped stages after they were woken: ``refused`` by a broker,
        or ``given up`` by the stage itself, because it knew that it had lost its partitions."""
        self.problems: list[str] = []
        self._kinds: Mapping[str, Callable[[int], tuple[str, bool]]] = {
            "connection": self._connection,
            "stage killed in a transaction": self._kill_in_a_transaction,
            "stage killed at any time": self._kill,
            "broker killed": self._kill_broker,
            "broker stopped": self._stop_broker,
            "successor of a stopped stage": self._succeed,
            "owner beside a stopped stage": self._take_over,
            "rebalance": self._rebalance,
        }

    def run(self, faults: int, say: Callable[[str], object]) -> None:
        """Let *faults* faults happen, one after the other, when each stage has committed a transaction. *say*
        is called with each."""
        for program in self._chain.programs:
            program.wait_committed()
        order = [kind for _ in range(0, faults, len(_TEN)) for kind in self._dice.sample(_TEN, len(_TEN))]
        for number, kind in enumerate(order[:faults], 1):
            for program in self._chain.programs:
                if (status := program.process.poll()) is not None:
                    raise RuntimeError(f"a stage has ended with the status {status}: {program.last()}")
            stage = self._dice.randrange(len(self._chain.programs))
            more, hit = self._kinds[kind](stage)
            self.hits += hit
            say(f"{number}/{faults} stage {stage}: {kind}{more}{', in an open transaction' if hit else ''}")

    # Each of these methods injects a fault. It returns a description, and True if the fault has hit an open
    # transaction.

    def _connection(self, stage: int) -> tuple[str, bool]:
        kind, before = self._dice.choice(_REQUESTS), self._over()
        what = self._arm(kind)
        wait_until(lambda: self._over() > before, _PATIENCE, f"a {kind.__name__}")
        return f": {what}", kind in _IN_A_TRANSACTION

    def _arm(self, kind: type[ApiMessage]) -> str:
        """Let a fault hit the next request of *kind*. Return a description."""
        fault = self._dice.choice(FAULTS)
        if fault.action is Action.HOLD:
            fault = fault._replace(seconds=self._dice.uniform(0, _LONGEST_HOLD))
        self._plan.arm(kind, fault)
        return f"{kind.__name__.removesuffix('Request')}: {fault}"

    def _over(self) -> int:
        return len(self._proxy.happened) + len(self._proxy.missed)

    def _kill_in_a_transaction(self, stage: int) -> tuple[str, bool]:
        program = self._chain.programs[stage]
        _stop_in_a_transaction(program)
        program.kill()
        return self._replace(stage), True

    def _kill(self, stage: int) -> tuple[str, bool]:
        program = self._chain.programs[stage]
        program.wait("open")
        time.sleep(self._dice.uniform(0, 2 * program.job.work))
        program.kill()
        word = program.last().word
        return f" ({word}){self._replace(stage)}", word == "open"

    def _replace(self, stage: int) -> str:
        """Start another program for *stage*, and wait until it has committed a transaction. Return what has
        happened to its connections while it started."""
        more = ""
        if self._dice.random() < _AT_A_START:
            more = f", and at the next start: {self._arm(self._dice.choice(_STARTING))}"
        self._chain.programs[stage] = self._chain.start(stage)
        self._chain.programs[stage].wait_committed()
        return more

    def _kill_broker(self, stage: int) -> tuple[str, bool]:
        program, node, role = self._choose_broker(stage)
        program.wait("open")
        self._brokers.kill(node)
        hit = program.last().word == "open"
        try:
            time.sleep(self._dice.uniform(0, _DOWN))
        finally:
            self._brokers.restart(node)
        program.wait_committed()
        return f" ({node}, {role})", hit

    def _stop_broker(self, stage: int) -> tuple[str, bool]:
        program, node, role = self._choose_broker(stage)
        program.wait("open")
        self._brokers.stop(node)
        hit = program.last().word == "open"
        try:
            time.sleep(self._dice.uniform(*_STOPPED))
        finally:
            self._brokers.wake(node)
        program.wait_committed()
        return f" ({node}, {role})", hit

    def _choose_broker(self, stage: int) -> tuple[Program, int, str]:
        program, role = self._chain.programs[stage], self._dice.choice(ROLES)
        self._brokers.settle(self._chain.topics, PARTITIONS)
        return program, self._brokers.find(role, program.job, self._dice), role

    def _succeed(self, stage: int) -> tuple[str, bool]:
        zombie = self._chain.programs[stage]
        _stop_in_a_transaction(zombie)
        woken = len(zombie.entries())
        more = self._replace(stage)
        zombie.signal(signal.SIGCONT)
        if (status := zombie.process.wait(_PATIENCE)) != FENCED:
            self.problems.append(f"a stage with a successor has ended with the status {status}")
        return f"{more}: {self._fate(zombie, woken)}", True

    def _take_over(self, stage: int) -> tuple[str, bool]:
        zombie = self._chain.programs[stage]
        _stop_in_a_transaction(zombie)
        woken = len(zombie.entries())
        other = self._start_other(stage)
        zombie.signal(signal.SIGCONT)
        wait_until(lambda: len(zombie.entries()) > woken + 1, _PATIENCE, "the end of a transaction")
        fate = self._fate(zombie, woken)
        zombie.wait_committed()
        self._leave(other)
        return f": {fate}", True

    def _rebalance(self, stage: int) -> tuple[str, bool]:
        program = self._chain.programs[stage]
        other = self._start_other(stage)
        hit = program.last().word == "open"
        if how := self._dice.choice(("killed", "")):
            other.kill()
        else:
            self._leave(other)
        program.wait_committed()
        return f" (a member has joined and {'was killed' if how else 'left'})", hit

    def _start_other(self, stage: int) -> Program:
        """Start another member of the group of *stage*, with its own transactional id. Return it when it has
        committed a transaction."""
        other = self._chain.start(stage, f"{self._chain.topics[stage]}-other-{next(self._serial)}")
        other.wait_committed()
        return other

    def _leave(self, program: Program) -> None:
        if status := program.end():
            self.problems.append(f"a stage that was told to end has ended with the status {status}")

    def _fate(self, zombie: Program, woken: int) -> str:
        """Return how the transaction has ended in which *zombie* was stopped. Its journal had *woken* lines
        then."""
        number = zombie.entries()[woken - 1].number
        own = [each for each in zombie.entries()[woken:] if each.number == number]
        end = next((each for each in own if each.word not in ("open", "ending")), Entry("nothing"))
        if end.word not in _ABORTED:
            self.problems.append(f"a stage that was stopped in a transaction has ended it: {end}")
        elif refusal := _ERROR_CODE.search(end.more):
            self.zombies["refused"] += 1
            return f"refused with {refusal[1]}"
        self.zombies["given up"] += end.word in _ABORTED
        return f"{end.word} {end.more}"


def _stop_in_a_transaction(program: Program) -> None:
    """Send SIGSTOP to *program* while its transaction is open and it has not begun to end it."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        program.wait("open")
        program.signal(signal.SIGSTOP)
        wait_until(lambda: _state(program.process.pid) in "TZX", _PATIENCE, "a stopped program")
        if program.last().word == "open":
            return
        program.signal(signal.SIGCONT)
    raise TimeoutError(f"a program could not be stopped in a transaction in {_PATIENCE:g} s")


def _state(pid: int) -> str:
    """Return the letter of the state of process *pid*."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
