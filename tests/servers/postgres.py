"""A PostgreSQL server with databases for tests. The user root cannot run it, and runs it as the user
postgres."""

import itertools
import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

import psycopg

from tests.servers.ports import HOST, free_port
from tests.servers.process import ServerProcess, wait_until
from tests.servers.programs import MissingProgramError, program
from tests.servers.reaper import Reaper

__all__ = ["Postgres"]

_USER = "postgres"
_FAST_SHUTDOWN = signal.SIGINT
_QUICK = ("-c", "fsync=off", "-c", "max_connections=50", "-c", "shared_buffers=16MB")


class Postgres:
    """One server on a free port of the loopback interface. It starts when it is made."""

    def __init__(self, reaper: Reaper) -> None:
        self.port = free_port()
        # The directories of pytest cannot be read by another user.
        self._directory = Path(tempfile.mkdtemp(prefix="pyklient-postgres-"))
        self._serial = itertools.count(1)
        as_user = []
        if os.getuid() == 0:
            try:
                shutil.chown(self._directory, _USER)
            except LookupError:
                raise MissingProgramError(f"there is no user {_USER}: apt-get install postgresql") from None
            as_user = [program("setpriv"), f"--reuid={_USER}", f"--regid={_USER}", "--init-groups"]
        data = str(self._directory / "data")
        initdb = [*as_user, _server_program("initdb"), "-D", data, "-U", _USER, "-A", "trust", "-N"]
        made = subprocess.run(initdb, cwd="/", capture_output=True, text=True, timeout=120)
        assert made.returncode == 0, made.stdout + made.stderr
        server = [_server_program("postgres"), "-D", data, "-h", HOST, "-p", str(self.port), "-k", ""]
        self._process = ServerProcess("postgres", [*as_user, *server, *_QUICK], self._directory, reaper)
        self._process.launch()
        self._process.wait_ready(self._answers)

    def conninfo(self, database: str = _USER) -> str:
        """Return how to connect to *database*."""
        return f"host={HOST} port={self.port} user={_USER} dbname={database}"

    def new_database(self) -> str:
        """Create a database, and return how to connect to it."""
        name = f"test{next(self._serial)}"
        with psycopg.connect(self.conninfo(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.conninfo(name)

    def close(self) -> None:
        """Stop the server, and delete its data."""
        with suppress(ProcessLookupError):
            os.kill(self._process.pid, _FAST_SHUTDOWN)
        with suppress(TimeoutError):
            wait_until(lambda: not self._process.running, 60, "the end of PostgreSQL")
        self._process.stop()
        shutil.rmtree(self._directory)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.conninfo(), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True


def _server_program(name: str) -> str:
    """Return the path of *name*, a program of PostgreSQL's server, which Debian keeps off the PATH."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    return str(found[-1]) if found else program(name)
