"""Kills and stops programs that store messages in a database, forces rebalances, and checks that each message
is stored once."""

import json
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import LiteralString, NamedTuple

import psycopg

from pyklient import Admin, ConsumerConnector, Producer
from tools.offset_stores.worker import OPTIONS, Job, offset_store
from tools.repository import ROOT

__all__ = ["create_results", "kill_programs", "send", "start", "stored"]

_PARTITIONS, _PROGRAMS = 4, 3
_MORE = ("another stopped", "a member joined and left", "another stopped", "")
"""What happens beside the kill at each moment, again and again."""
_PAST_THE_SESSION = 1.5
_STALLED = 120.0
"""The number of seconds without a new message after which the programs count as stalled."""


class _Woken(NamedTuple):
    """A program that was stopped past its session and woken, and the number of lines in the log then."""

    pid: int
    lines: int


def kill_programs(
    bootstrap: str,
    topic: str,
    database: str,
    directory: Path,
    *,
    seed: int,
    moments: int,
    messages: int,
    say: Callable[[str], object] = print,
) -> list[str]:
    """Store *messages* messages of a new *topic* in *database*, by three programs.

    At each of *moments* moments, kill a program and start another one. At most of them, also stop a second
    program for longer than its session and wake it, or let a member join and leave. Return what was wrong.
    """
    rng = random.Random(seed)
    send(bootstrap, topic, messages)
    create_results(database)
    log = directory / f"{topic}.log"
    jobs = [Job(bootstrap, topic, database, str(log), arrow=bool(number % 2)) for number in range(_PROGRAMS)]
    forced, late, woken, began = 0, 0, [], time.monotonic()
    with ExitStack() as stack:
        programs = [_start_until_the_end(job, stack) for job in jobs]
        for moment in range(1, moments + 1):
            progress = max(_count(database) + 1, messages * moment // (moments + 1))
            _wait_for(database, min(progress, messages))
            time.sleep(rng.uniform(0, 0.4))
            late += _count(database) == messages
            killed, other = rng.sample(range(_PROGRAMS), 2)
            if any(program.poll() is not None for program in programs):
                return ["a program has ended by itself; its error is above"]
            programs[killed].kill()
            programs[killed].wait()
            programs[killed] = _start_until_the_end(jobs[killed], stack)
            more = _MORE[(moment - 1) % len(_MORE)]
            if more == "another stopped":
                woken.append(_stop_past_the_session(programs[other], log))
            elif more:
                _join_and_leave(jobs[other])
                forced += 1
            say(f"moment {moment}: {', '.join(filter(None, ['killed', more]))}; {_count(database)} stored")
        _wait_for(database, messages)
    found, lines = stored(database), _lines(log)
    outcomes = Counter(_outcome(each, lines) for each in woken)
    say(
        f"{len(found)} of {messages} messages were stored in {time.monotonic() - began:.0f} s. {moments} "
        f"programs were killed, {late} of them after the last message was stored. {len(woken)} programs were "
        "stopped past their session and woken: the next transaction "
        f"of {outcomes['fenced']} was rolled back, and that of {outcomes['stored']} was committed. Members "
        f"joined and left {forced} times. {sum(' fenced' in line for line in lines)} transactions were fenced"
    )
    return _problems(found, messages)


def send(bootstrap: str, topic: str, messages: int) -> None:
    """Create *topic*, and send *messages* messages."""
    with Admin(bootstrap) as admin:
        admin.create_topic(topic, partitions=_PARTITIONS)
    with Producer(bootstrap) as producer:
        for number in range(messages):
            producer.send(topic, b"%d" % number, partition=number % _PARTITIONS)


def start(job: Job) -> "subprocess.Popen[bytes]":
    """Start a program that does *job*, until it is killed."""
    command = [sys.executable, "-m", "tools.offset_stores.worker", json.dumps(job._asdict())]
    return subprocess.Popen(command, cwd=ROOT)


def create_results(database: str) -> None:
    """Create the table of results in *database*. It has no key, so that it can contain a message twice."""
    text = 'CREATE TABLE results (partition INTEGER, "offset" BIGINT)'
    if database.endswith(".db"):
        with closing(sqlite3.connect(database)) as connection, connection:
            connection.execute(text)
    else:
        with psycopg.connect(database) as session:
            session.execute(text)


def stored(database: str) -> list[tuple[int, ...]]:
    """Return the partition and the offset of each message in *database*."""
    return _query(database, 'SELECT partition, "offset" FROM results')


def _count(database: str) -> int:
    [(count,)] = _query(database, "SELECT count(*) FROM results")
    return int(count)


def _query(database: str, text: LiteralString) -> list[tuple[int, ...]]:
    if database.endswith(".db"):
        with closing(sqlite3.connect(database, timeout=30)) as connection:
            return list(connection.execute(text))
    with psycopg.connect(database) as connection:
        return list(connection.execute(text))


def _stop_past_the_session(program: "subprocess.Popen[bytes]", log: Path) -> _Woken:
    """Stop *program* for longer than its session, so that its partitions get other owners, and wake it."""
    program.send_signal(signal.SIGSTOP)
    time.sleep(_PAST_THE_SESSION)
    lines = len(_lines(log))
    program.send_signal(signal.SIGCONT)
    return _Woken(program.pid, lines)


def _outcome(woken: _Woken, lines: list[str]) -> str:
    """Return how the first transaction has ended that a program has ended after it was woken: ``stored``,
    ``fenced``, or another word of the log. The text is empty if there is no such transaction, for instance
    because the program was killed."""
    found = (line.split()[:2] for line in lines[woken.lines :])
    return next((word for pid, word in found if pid == str(woken.pid)), "")


def _lines(log: Path) -> list[str]:
    return log.read_text().splitlines() if log.exists() else []


def _join_and_leave(job: Job) -> None:
    """Join the group of *job* and leave it again. So all partitions are assigned twice, and some of them go
    to another member and come back."""
    options = OPTIONS | {"group_id": job.topic, "offset_store": offset_store(job.database)}
    with ConsumerConnector(job.bootstrap, **options) as connector:
        connector.stream(job.topic)


def _wait_for(database: str, count: int) -> None:
    """Wait until *database* contains *count* messages, or until none are added any more."""
    found = _count(database)
    deadline = time.monotonic() + _STALLED
    while found < count and time.monotonic() < deadline:
        time.sleep(0.05)
        before, found = found, _count(database)
        if found > before:
            deadline = time.monotonic() + _STALLED


def _problems(found: list[tuple[int, ...]], messages: int) -> list[str]:
    sent: set[tuple[int, ...]] = {(number % _PARTITIONS, number // _PARTITIONS) for number in range(messages)}
    twice = sorted(each for each, count in Counter(found).items() if count > 1)
    lost = sorted(sent.difference(found))
    problems = []
    if twice:
        problems.append(f"{len(twice)} messages are stored more than once, first {twice[0]}")
    if lost:
        problems.append(f"{len(lost)} messages are not stored, first {lost[0]}")
    return problems


def _start_until_the_end(job: Job, stack: ExitStack) -> "subprocess.Popen[bytes]":
    """Start a program that does *job*, and kill it when *stack* is closed."""
    program = start(job)
    stack.callback(_end, program)
    return program


def _end(program: "subprocess.Popen[bytes]") -> None:
    program.kill()
    program.wait()
