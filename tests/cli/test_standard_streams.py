"""Standard streams that are closed, full or non-blocking: error messages and exit codes, and no lost
output."""

import array
import fcntl
import io
import os
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator

import pytest

from pyklient.broker import Broker
from pyklient.cli.standard_streams import _Output
from tests.servers.fixtures import NewName
from tools.repository import ROOT


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def environment(broker: Broker) -> dict[str, str]:
    return os.environ | {
        "PYTHONPATH": str(ROOT),
        "PYKLIENT_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
        "PYKLIENT": f"{sys.executable} -m pyklient",
    }


def _shell(script: str, environment: dict[str, str]) -> tuple[int, bytes, str]:
    done = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, timeout=60, check=False
    )
    return done.returncode, done.stdout, done.stderr.decode()


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("$PYKLIENT produce t <&-", "standard input is closed; no line is stored"),
        ("$PYKLIENT info >&-", "standard output is closed"),
        ("$PYKLIENT topics list --help >&-", "standard output is closed"),
        ("$PYKLIENT info > /dev/full", "standard output: No space left on device"),
        ("$PYKLIENT --help > /dev/full", "standard output: No space left on device"),
        (
            "$PYKLIENT produce t -f /proc/self/mem",
            "cannot read /proc/self/mem: Input/output error; no line is stored",
        ),
    ],
)
def test_a_stream_that_fails_is_one_sentence(script: str, said: str, environment: dict[str, str]) -> None:
    assert _shell(script, environment) == (1, b"", f"pyklient: {said}\n")


@pytest.mark.parametrize("where", [">&-", "> /dev/full"])
def test_messages_that_cannot_be_written_are_a_failure_and_not_committed(
    where: str, new_name: NewName, environment: dict[str, str]
) -> None:
    topic = new_name()
    assert _shell(f"seq 3 | $PYKLIENT produce {topic} -q", environment) == (0, b"", "")
    consume = f"$PYKLIENT consume {topic} -g {topic} --from-beginning -n 3"
    code, _, said = _shell(f"{consume} {where}", environment)
    assert (code, said.count("\n")) == (1, 1)
    assert said.startswith("pyklient: standard output")
    assert _shell(consume, environment) == (0, b"1\n2\n3\n", "")


def test_a_stream_that_is_not_needed_may_be_closed(new_name: NewName, environment: dict[str, str]) -> None:
    topic = new_name()
    assert _shell(f"echo 1 | $PYKLIENT produce {topic} -q >&-", environment) == (0, b"", "")
    assert _shell(f"echo 2 | $PYKLIENT produce {topic} 2>&-", environment) == (0, b"", "")
    assert _shell(f"echo 3 | $PYKLIENT produce {topic} 2> /dev/full", environment) == (0, b"", "")
    assert _shell(f"$PYKLIENT produce {topic} -q -f <(echo 4) <&- >&- 2>&-", environment) == (0, b"", "")
    assert _shell(f"$PYKLIENT consume {topic} --to-end <&-", environment) == (0, b"1\n2\n3\n4\n", "")
    # What is an error is not printed where results go.
    assert _shell("$PYKLIENT groups describe no-such-group 2>&-", environment) == (1, b"", "")


def test_help_that_nobody_reads_to_the_end_is_no_failure_of_its_own(environment: dict[str, str]) -> None:
    for command in ("--help", "info", "topics create --help"):
        script = f"($PYKLIENT {command}; echo $? >&2) | :"
        assert _shell(f"sleep 0.3 | {script}", environment)[2] in ("141\n", "0\n")


def test_what_a_pipe_that_does_not_block_takes_in_parts_arrives_whole() -> None:
    ours, end = os.pipe()
    os.set_blocking(end, False)
    sent, received = os.urandom(1 << 20), bytearray()

    def read() -> None:
        while data := os.read(ours, 4096):
            received.extend(data)

    reader = threading.Thread(target=read)
    reader.start()
    with _Output(end, "wb") as output, io.BufferedWriter(output) as buffered:
        buffered.write(sent)
    reader.join(30)
    os.close(ours)
    assert received == sent


def test_lines_that_come_in_pieces_from_a_pipe_that_does_not_block_stay_whole(
    new_name: NewName, environment: dict[str, str]
) -> None:
    topic = new_name()
    end, ours = os.pipe()
    os.set_blocking(end, False)
    arguments = [sys.executable, "-m", "pyklient", "produce", topic, "-q"]
    with subprocess.Popen(arguments, stdin=end, env=environment) as process:
        for piece in (b"one ", b"line\ntwo ", b"lines\n"):
            os.write(ours, piece)
            while _unread(end) and process.poll() is None:
                time.sleep(0.05)
            # It has read the piece, and sees that there is no more yet.
            time.sleep(0.05)
        os.close(ours)
        assert process.wait(timeout=60) == 0
    os.close(end)
    assert _shell(f"$PYKLIENT consume {topic} --to-end", environment)[1] == b"one line\ntwo lines\n"


def _unread(pipe: int) -> int:
    """Return the number of bytes that are in *pipe*."""
    count = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


def test_a_slow_reader_of_a_pipe_that_does_not_block_gets_everything(
    new_name: NewName, environment: dict[str, str]
) -> None:
    topic = new_name()
    _shell(f"seq 100000 | $PYKLIENT produce {topic} -q", environment)
    ours, end = os.pipe()
    os.set_blocking(end, False)
    arguments = [sys.executable, "-m", "pyklient", "consume", topic, "--to-end"]
    with subprocess.Popen(arguments, stdout=end, env=environment) as process, open(ours, "rb") as read:
        os.close(end)
        first = read.read(1)
        assert process.poll() is None
        assert first + read.read() == b"".join(b"%d\n" % number for number in range(1, 100_001))
        assert process.wait(timeout=60) == 0
