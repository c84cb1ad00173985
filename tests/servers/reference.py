"""pyklient's own broker as a child process, so that it can be killed and started again like any other."""

import sys
from collections.abc import Mapping
from pathlib import Path

from tests.servers.ports import HOST, free_port
from tests.servers.process import ServerProcess
from tests.servers.reaper import Reaper
from tests.servers.topics import serves

__all__ = ["ReferenceBroker"]

_ROOT = Path(__file__).parents[2]
_PROGRAM = """
import signal, sys
from pyklient.broker import Broker
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
with Broker(port=int(sys.argv[1]), data_dir=sys.argv[2], **{settings}):
    signal.sigwait([signal.SIGTERM])
"""


class ReferenceBroker:
    """The broker ``pyklient.broker.Broker(**settings)`` in a separate process, with its data in
    *directory*."""

    def __init__(self, directory: Path, reaper: Reaper, settings: Mapping[str, object] | None = None) -> None:
        self.name = "reference"
        directory.mkdir(parents=True)
        self.data = directory / "data"
        self.data.mkdir()
        self.port = free_port()
        program = _PROGRAM.format(settings=dict(settings or {}))
        command = [sys.executable, "-c", program, str(self.port), str(self.data)]
        self.process = ServerProcess(self.name, command, directory, reaper)

    @property
    def bootstrap_servers(self) -> str:
        return f"{HOST}:{self.port}"

    def start(self) -> None:
        """Start the broker. Return when it serves."""
        self.process.launch({"PYTHONPATH": str(_ROOT)})
        self.process.wait_ready(lambda: serves(self.bootstrap_servers), timeout=30)

    restart = start

    def kill(self) -> None:
        """Send SIGKILL."""
        self.process.kill()

    def stop(self) -> None:
        """Send SIGTERM, after which the broker closes its logs."""
        self.process.stop()

    def logs(self) -> dict[str, str]:
        return {self.name: self.process.tail()}
