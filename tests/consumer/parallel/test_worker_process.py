"""Worker processes: what signals do to them, and that they do not outlive the program."""

import os
import subprocess
import sys
from pathlib import Path

from pyklient import Message
from pyklient.consumer.parallel.worker_process import WorkerProcess
from tests.consumer.parallel import handlers

_ROOT = Path(__file__).parents[3]
_EXITING = """
import sys, threading, time
from pathlib import Path
from pyklient import Message
from pyklient.consumer.parallel.worker_process import WorkerProcess
from tests.consumer.parallel import handlers

if __name__ == "__main__":
    path = Path(sys.argv[1])
    message = Message("t", 0, 0, 0, 0, None, str(path).encode())
    threading.Thread(target=WorkerProcess("worker", handlers.hang), args=(message,), daemon=True).start()
    deadline = time.monotonic() + 30
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
"""


def test_a_signal_to_all_processes_lets_the_message_in_hand_finish(tmp_path: Path) -> None:
    path = tmp_path / "handled"
    worker = WorkerProcess("worker", handlers.stop_all)
    try:
        for text in ("one", "two"):
            worker(Message("t", 0, 0, 0, 0, None, f"{path} {text}".encode()))
    finally:
        worker.close()
    pids, texts = zip(*(line.split() for line in path.read_text().splitlines()), strict=True)
    assert texts == ("one", "two")
    assert len(set(pids)) == 1


def test_a_program_ends_although_a_handler_in_a_process_does_not(tmp_path: Path) -> None:
    path = tmp_path / "begun"
    program = tmp_path / "program.py"
    program.write_text(_EXITING)
    ran = subprocess.run(
        [sys.executable, str(program), str(path)],
        env={**os.environ, "PYTHONPATH": str(_ROOT)},
        timeout=60,
        capture_output=True,
        check=False,
    )
    assert path.exists(), ran.stderr
    assert ran.returncode == 0, ran.stderr
