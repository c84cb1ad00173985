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
from typing import LiteralString

import psycopg

from pyklient import Admin, ConsumerConnector, Producer
from tools.offset_stores.worker import OPTIONS, Job, offset_store
from tools.repository import ROOT

__all__ = ["create_results", "kill_programs", "send", "start", "stored"]

_PARTITIONS, _PROGRAMS = 4, 3
_PAST_THE_SESSION = 1.5
_STALLED = 120.0
"""The number of seconds without a new message after which the programs count as stalled."""


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
    """Store *messages* messages of a new *topic* in *database*, by three programs. At each of *moments*
    moments, kill a program and start another one, stop one for longer than its session, or let a member join
    and leave. Return what was wrong."""
    rng = random.Random(seed)
    send(bootstrap, topic, messages)
    create_results(database)
    log = directory / f"{topic}.log"
    jobs = [Job(bootstrap, topic, database, str(log), arrow=bool(number % 2)) for number in range(_PROGRAMS)]
    with ExitStack() as stack:
        programs = [_start_until_the_end(job, stack) for job in jobs]
        for moment in range(1, moments + 1):
            progress = max(_count(database) + 1, messages * moment // (moments + 1))
            _wait_for(database, min(progress, messages))
            time.sleep(rng.uniform(0, 0.4))
            chosen = rng.randrange(_PROGRAMS)
            if programs[chosen].poll() is not None:
                return [f"a program has ended by itself; see {log}"]
            [happened] = rng.choices(["stopped", "killed", "joined and left"], [2, 2, 1])
            if happened == "stopped":
                programs[chosen].send_signal(signal.SIGSTOP)
                time.sleep(_PAST_THE_SESSION)
                programs[chosen].send_signal(signal.SIGCONT)
            elif happened == "killed":
                programs[chosen].kill()
                programs[chosen].wait()
                programs[chosen] = _start_until_the_end(jobs[chosen], stack)
            else:
                _join_and_leave(jobs[chosen])
            say(f"moment {moment}: {happened}, {_count(database)} stored")
        _wait_for(database, messages)
    rejected = log.read_text().count("OffsetStoreFencedError") if log.exists() else 0
    say(f"{_count(database)} of {messages} messages stored, {rejected} transactions were fenced")
    return _problems(stored(database), messages)


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
