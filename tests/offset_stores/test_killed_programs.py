"""Programs that store messages in a database are killed and stopped; ``make chaos-stores`` does it at fifty
moments, on Kafka."""

import os
import signal
from pathlib import Path

import pytest

from pyklient.broker import Broker
from tests.run.seed import seed
from tests.servers.postgres import Postgres
from tests.servers.process import wait_until
from tools.offset_stores.kills import create_results, kill_programs, send, start, stored
from tools.offset_stores.worker import Job


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "moments"), [("sqlite", 2), ("postgres", 2)])
def test_each_message_is_stored_once_although_programs_are_killed_and_stopped(
    kind: str, moments: int, tmp_path: Path, postgres: Postgres
) -> None:
    database = str(tmp_path / "results.db") if kind == "sqlite" else postgres.new_database()
    with Broker(auto_create_topics=False) as broker:
        problems = kill_programs(
            broker.bootstrap_servers,
            "results",
            database,
            tmp_path,
            seed=seed(),
            moments=moments,
            messages=2_000,
        )
    assert not problems, "\n".join(problems)


@pytest.mark.slow
def test_the_transaction_of_a_program_that_was_stopped_past_its_session_is_rolled_back(
    tmp_path: Path, postgres: Postgres
) -> None:
    hold, database = tmp_path / "hold", postgres.new_database()
    create_results(database)
    hold.touch()
    with Broker(auto_create_topics=False) as broker:
        send(broker.bootstrap_servers, "results", 400)
        job = Job(broker.bootstrap_servers, "results", database, str(tmp_path / "first"), hold=str(hold))
        with start(job) as first:
            try:
                wait_until(lambda: "holds" in _log(job), 60, "a transaction")
                first.send_signal(signal.SIGSTOP)
                with start(job._replace(log=str(tmp_path / "second"), hold="")) as second:
                    try:
                        wait_until(lambda: len(stored(database)) == 400, 60, "the next owner")
                        os.remove(hold)
                        first.send_signal(signal.SIGCONT)
                        wait_until(lambda: "fenced" in _log(job), 60, "the end of the hold")
                    finally:
                        second.kill()
            finally:
                first.kill()
    assert sorted(stored(database)) == [(partition, each) for partition in range(4) for each in range(100)]


def _log(job: Job) -> str:
    path = Path(job.log)
    return path.read_text() if path.exists() else ""
