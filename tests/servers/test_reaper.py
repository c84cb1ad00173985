"""A killed test run leaves neither processes nor files behind."""

import subprocess
import sys
from pathlib import Path

from tests.servers.process import wait_until

_KILLED = """
import os, signal, subprocess, sys
from pathlib import Path
from tests.servers.reaper import Reaper

reaper = Reaper()
reaper.delete_at_end(Path(sys.argv[1]))
server = subprocess.Popen(["sleep", "600"], start_new_session=True)
reaper.adopt(server.pid)
print(server.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_processes_and_folders_of_a_killed_run_do_not_stay(tmp_path: Path) -> None:
    folder = tmp_path / "servers"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "file").write_bytes(b"x")
    run = subprocess.run(
        [sys.executable, "-c", _KILLED, str(folder)], capture_output=True, text=True, timeout=30, check=False
    )
    server = Path(f"/proc/{int(run.stdout)}/stat")
    wait_until(lambda: not folder.exists(), 30, "the deletion of the folder")
    wait_until(lambda: not server.exists() or " Z " in server.read_text(encoding="utf-8"), 30, "the end")
