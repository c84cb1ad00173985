"""A program that handles messages in parallel and is killed twice; ``make chaos-handlers`` kills fifty."""

import random
import signal
import time
from pathlib import Path

import pytest

from pyklient import Admin
from pyklient.consumer.parallel import completed_offsets
from pyklient.topic_partition import OffsetAndMetadata, TopicPartition
from tests.run.seed import seed
from tests.servers.fixtures import NewName
from tests.servers.process import wait_until
from tools.handlers.journal import Journal, remembered
from tools.handlers.kills import kill_handlers, new_job, send, start


@pytest.mark.slow
@pytest.mark.brokers(min="4.3")
@pytest.mark.parametrize(
    "processes",
    [pytest.param(False, id="threads"), pytest.param(True, id="processes", marks=pytest.mark.long)],
)
def test_killed_handlers_skip_nothing_and_repeat_nothing_that_is_committed(
    bootstrap: str, new_name: NewName, tmp_path: Path, processes: bool
) -> None:
    problems = kill_handlers(
        bootstrap, new_name(), tmp_path, seed=seed(), kills=2, messages=500, processes=processes
    )
    assert not problems, "\n".join(problems)


@pytest.mark.slow
@pytest.mark.brokers(min="4.3", real=True)
def test_a_program_that_was_stopped_past_its_session_takes_no_commit_back(
    bootstrap: str, new_name: NewName, tmp_path: Path
) -> None:
    name, count = new_name(), 1_500
    keys = send(bootstrap, name, count, random.Random(seed()))
    found = Journal(tmp_path / f"{name}.journal", keys)
    job = new_job(bootstrap, name, tmp_path)
    with Admin(bootstrap) as admin, start(job) as stopped:
        try:
            wait_until(lambda: found.size > 10_000, 60, "the first messages")
            stopped.send_signal(signal.SIGSTOP)
            before = remembered(admin.group_offsets(name))
            with start(job) as next_owner:
                wait_until(
                    lambda: len(remembered(admin.group_offsets(name))) > len(before) + 100, 30, "a next owner"
                )
                stopped.send_signal(signal.SIGCONT)
                deadline = time.monotonic() + 60
                while len(before) < count:
                    assert time.monotonic() < deadline, f"{len(before)} of {count} messages are committed"
                    now = remembered(admin.group_offsets(name))
                    assert before <= now, "a commit was taken back"
                    before = now
                next_owner.communicate(timeout=60)
            stopped.communicate(timeout=60)
        finally:
            stopped.send_signal(signal.SIGCONT)
            stopped.kill()
        assert remembered(admin.group_offsets(name)) == keys.keys()
    found.check(set())
    assert found.done.keys() == keys.keys()


KEYS = {(0, 0): "a", (0, 1): "b", (0, 2): "a", (0, 3): ""}


def journal(directory: Path, *lines: str) -> Journal:
    """Return a journal in which a program has written *lines*."""
    found = Journal(directory / "journal", KEYS)
    (directory / "journal").write_text("".join(f"{line} 1.0\n" for line in lines))
    return found


def test_a_message_before_an_earlier_one_of_its_key_is_seen(tmp_path: Path) -> None:
    (problem,) = journal(tmp_path, "begin 0 2 a").check(set())
    assert problem == "message 0-2 was handled before 1 earlier messages of its key"


def test_two_messages_of_a_key_at_the_same_time_are_seen(tmp_path: Path) -> None:
    lines = ["begin 0 0 a", "done 0 0 a", "begin 0 0 a", "begin 0 2 a"]
    (problem,) = journal(tmp_path, *lines).check(set())
    assert problem == "message 0-2 was handled at the same time as another message of its key"


def test_a_message_of_which_a_commit_tells_that_it_is_done_is_seen(tmp_path: Path) -> None:
    done = completed_offsets.encode(1, [range(3, 4)])
    known = remembered({TopicPartition("t", 0): OffsetAndMetadata(1, done)})
    assert known == {(0, 0), (0, 3)}
    found = journal(tmp_path, "begin 0 1 b", "done 0 1 b", "begin 0 3 ", "begin 0 1 b")
    assert found.check(known) == ["message 0-3 was handled again, although a commit told that it was done"]
    assert found.repeated == {(0, 1): 1.0}


def test_messages_without_a_key_have_no_order(tmp_path: Path) -> None:
    assert journal(tmp_path, "begin 0 3 ", "begin 0 0 a").check(set()) == []
