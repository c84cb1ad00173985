"""SIGKILLs at random moments for a program that handles messages in parallel."""

import json
import random
import subprocess
import sys
import time
from bisect import bisect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyklient import Admin, Producer, TopicPartition
from tools.handlers.journal import Journal, Where, remembered
from tools.repository import ROOT

__all__ = ["kill_handlers", "new_job", "send", "start"]

_PARTITIONS, _KEYS, _WORKERS, _PROCESSES = 4, 60, 8, 3
_LONGEST_HANDLER = 0.01
_START_TIMEOUT = 60.0
_END_TIMEOUT = 120.0
_OPTIONS = {
    "auto_commit_interval_ms": 50,
    "session_timeout_ms": 700,
    "heartbeat_interval_ms": 100,
    "fetch_max_wait_ms": 50,
    # Few for each fetch, so that messages of all partitions are in hand at the same time.
    "max_partition_fetch_bytes": 4_096,
}


def kill_handlers(
    bootstrap: str,
    name: str,
    directory: Path,
    *,
    seed: int,
    kills: int,
    messages: int,
    processes: bool = False,
    say: Callable[[str], object] = print,
) -> list[str]:
    """Handle *messages* messages of a new topic *name* in programs that are killed *kills* times. Return what
    was wrong.

    After each SIGKILL, the commits of the group must tell only of messages that are done. The next program
    must handle none of these messages again, and each message only after the earlier ones of its key. In the
    end, all messages are done and committed.
    """
    rng = random.Random(seed)
    keys = send(bootstrap, name, messages, rng)
    journal = Journal(directory / f"{name}.journal", keys)
    job = new_job(bootstrap, name, directory, processes=processes)
    problems: list[str] = []
    killed_at: list[float] = []
    oldest = 0.0
    with Admin(bootstrap) as admin:
        known: set[Where] = set()
        for number in range(1, kills + 1):
            before = set(journal.repeated)
            killed_at.append(_run_and_kill(job, journal, rng))
            problems += journal.check(known)
            again = journal.repeated.keys() - before
            for done_at in (journal.repeated[each] for each in again):
                oldest = max(oldest, killed_at[bisect(killed_at, done_at)] - done_at)
            stored = admin.group_offsets(name)
            known = remembered(stored)
            problems += _not_done(known, journal)
            listed = sum(len(each.metadata) for each in stored.values())
            say(
                f"kill {number}: {len(journal.done)} done, {len(known)} committed, {listed} characters of "
                f"metadata, {len(again)} handled again"
            )
        _run_to_the_end(job, journal, keys)
        problems += journal.check(known)
        stored = admin.group_offsets(name)
    problems += _not_done(set(keys), journal)
    ends = {
        partition: 1 + max(offset for each, offset in keys if each == partition)
        for partition in range(_PARTITIONS)
    }
    wanted = {TopicPartition(name, each): (end, "") for each, end in ends.items()}
    if {each: (at.offset, at.metadata) for each, at in stored.items()} != wanted:
        problems.append(f"in the end {stored} is committed, and not {wanted}")
    say(
        f"{len(keys)} messages, {len(journal.repeated)} handled again, all of which were done in the last "
        f"{oldest * 1000:.0f} ms before a kill"
    )
    return problems


def new_job(bootstrap: str, name: str, directory: Path, *, processes: bool = False) -> dict[str, Any]:
    """Return what a program is to do: handle topic *name* as a member of group *name*."""
    return {
        "bootstrap": bootstrap,
        "group": name,
        "topic": name,
        "journal": str(directory / f"{name}.journal"),
        "longest": _LONGEST_HANDLER,
        "workers": _PROCESSES if processes else _WORKERS,
        "processes": processes,
        "options": _OPTIONS,
    }


def send(bootstrap: str, topic: str, messages: int, rng: random.Random) -> dict[Where, str]:
    """Create *topic*, and send *messages* messages, one in ten without a key. Return the keys."""
    with Admin(bootstrap) as admin:
        admin.create_topic(topic, partitions=_PARTITIONS)
    keys: dict[Where, str] = {}
    with Producer(bootstrap) as producer:
        sent = []
        for _ in range(messages):
            key = "" if rng.random() < 0.1 else f"key-{rng.randrange(_KEYS)}"
            # Small batches, so that a fetch does not contain a whole partition.
            partition = _partition_of(key) if key else rng.randrange(_PARTITIONS)
            sent.append(
                (key, producer.send(topic, bytes(100), key=key.encode() or None, partition=partition))
            )
            if len(sent) % 20 == 0:
                producer.flush()
        for key, delivery in sent:
            stored = delivery.result(30)
            keys[stored.partition, stored.offset] = key
    return keys


def _partition_of(key: str) -> int:
    """Return the partition of *key*."""
    return int(key.removeprefix("key-")) % _PARTITIONS


def start(job: dict[str, Any]) -> "subprocess.Popen[bytes]":
    """Start the program that does *job*. It ends when its standard input closes."""
    command = [sys.executable, "-m", "tools.handlers.worker", json.dumps(job)]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE)


def _run_and_kill(job: dict[str, Any], journal: Journal, rng: random.Random) -> float:
    """Start a program, and kill it at a random moment, rarely before its first message. Return the time."""
    size, program = journal.size, start(job)
    try:
        if rng.random() < 0.1:
            time.sleep(rng.uniform(0, 1))
        else:
            deadline = time.monotonic() + _START_TIMEOUT
            while journal.size == size and program.poll() is None and time.monotonic() < deadline:
                time.sleep(0.001)
            time.sleep(rng.uniform(0, 0.4))
    finally:
        assert program.poll() is None, "the program has ended by itself"
        program.kill()
        program.wait()
        if program.stdin is not None:
            program.stdin.close()
    return time.time()


def _run_to_the_end(job: dict[str, Any], journal: Journal, keys: dict[Where, str]) -> None:
    """Start a program, and let it handle all that is left."""
    program = start(job)
    try:
        deadline = time.monotonic() + _END_TIMEOUT
        with Admin(job["bootstrap"]) as admin:
            while time.monotonic() < deadline and program.poll() is None:
                if sum(at.offset for at in admin.group_offsets(job["group"]).values()) == len(keys):
                    break
                time.sleep(0.1)
        program.communicate(timeout=_START_TIMEOUT)
    finally:
        program.kill()
        program.wait()


def _not_done(known: set[Where], journal: Journal) -> list[str]:
    missing = sorted(known - journal.done.keys())
    if not missing:
        return []
    return [f"{len(missing)} messages count as done and were not handled, first {missing[0]}"]
