"""The command as a process: signals, closed pipes, no traceback, and a run without the packages of its
extra."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyklient.broker import Broker
from pyklient.version import VERSION
from tests.servers.fixtures import NewName
from tests.servers.ports import HOST, free_port
from tools.repository import ROOT

_PYKLIENT = [sys.executable, "-m", "pyklient"]


@pytest.fixture
def environment(broker: Broker) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(ROOT), "PYKLIENT_BOOTSTRAP_SERVERS": broker.bootstrap_servers}


def _fill(topic: str, count: int, environment: dict[str, str]) -> None:
    lines = "".join(f"{number}\n" for number in range(count))
    subprocess.run(
        [*_PYKLIENT, "produce", topic, "-q"], input=lines.encode(), env=environment, check=True, timeout=60
    )


def test_a_reader_that_goes_away_ends_the_command_without_a_word(
    new_name: NewName, environment: dict[str, str]
) -> None:
    topic = new_name()
    _fill(topic, 20_000, environment)
    consume = f"{sys.executable} -m pyklient consume {topic} --from-beginning --json"
    command = f"{consume} | head -n 3; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", command], env=environment, capture_output=True, timeout=60, check=False
    )
    assert done.stdout.count(b"\n") == 3
    assert done.stderr == b""
    assert done.returncode == 128 + signal.SIGPIPE


def test_a_warning_is_shown_before_the_error_also_if_no_terminal_shows_it() -> None:
    nobody = f"{HOST}:{free_port()}"
    done = subprocess.run(
        [*_PYKLIENT, "topics", "list", "-b", nobody, "--timeout", "1"],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    warning, error = done.stderr.splitlines()
    assert warning.startswith(f"pyklient: cannot connect to bootstrap server {nobody}: ")
    assert error.startswith("pyklient: No broker ")
    assert (done.returncode, done.stdout) == (1, "")


@pytest.mark.parametrize(
    "sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name
)
def test_a_signal_ends_a_group_member_cleanly_with_its_offsets_committed(
    sent: signal.Signals, new_name: NewName, environment: dict[str, str]
) -> None:
    topic, group = new_name(), new_name()
    _fill(topic, 3, environment)
    arguments = ["consume", topic, "--group", group, "--from-beginning"]
    with subprocess.Popen(
        [*_PYKLIENT, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        # Whoever starts the tests with nohup ignores one of the signals, and children inherit that.
        preexec_fn=lambda: signal.signal(sent, signal.SIG_DFL),
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            assert [process.stdout.readline() for _ in range(3)] == [b"0\n", b"1\n", b"2\n"]
            process.send_signal(sent)
            assert process.wait(timeout=60) == 128 + sent
            assert process.stderr.read().strip() == b""
        finally:
            process.kill()
    described = subprocess.run(
        [*_PYKLIENT, "groups", "describe", group],
        env=environment,
        capture_output=True,
        timeout=60,
        check=True,
    )
    assert b"Empty" in described.stdout
    assert b"lag 0" in described.stdout


def test_a_hang_up_that_the_caller_ignores_ends_nothing(
    new_name: NewName, environment: dict[str, str]
) -> None:
    topic = new_name()
    _fill(topic, 1, environment)
    arguments = ["nohup", *_PYKLIENT, "consume", topic, "--from-beginning", "-n", "2"]
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"0\n"
        process.send_signal(signal.SIGHUP)
        _fill(topic, 1, environment)
        assert process.stdout.readline() == b"0\n"
        assert process.wait(timeout=60) == 0


def test_a_process_that_is_terminated_does_not_look_for_garbage_before_it_ends() -> None:
    program = """if True:
        import gc, os, sys
        from pyklient.__main__ import main

        def count(phase, _facts):
            if phase == "start":
                os.write(1, b"%d\\n" % len(gc.get_objects()))

        sys.argv = ["pyklient", "broker", "--port", "0"]
        code = main()
        gc.callbacks.append(count)
        sys.exit(code)
    """
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline().startswith(b"listening on")
            assert process.stderr.readline() == b"Press Ctrl-C to stop.\n"
            process.send_signal(signal.SIGTERM)
            gone_over = [int(line) for line in process.stdout]
            assert process.wait(timeout=60) == 128 + signal.SIGTERM
        finally:
            process.kill()
    assert gone_over
    assert max(gone_over) < 1_000


def test_a_broker_says_where_it_listens_keeps_its_data_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    arguments = ["broker", "--port", "0", "--data-dir", str(tmp_path / "data")]
    for expected in (b"", b"kept\n"):
        with subprocess.Popen(
            [*_PYKLIENT, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            address = process.stdout.readline().decode().removeprefix("listening on ").strip()
            there = environment | {"PYKLIENT_BOOTSTRAP_SERVERS": address}
            subprocess.run(
                [*_PYKLIENT, "topics", "create", "clicks", "--if-not-exists"],
                env=there,
                check=True,
                timeout=60,
            )
            read = subprocess.run(
                [*_PYKLIENT, "consume", "clicks", "--to-end"],
                env=there,
                capture_output=True,
                timeout=60,
                check=True,
            )
            assert read.stdout == expected
            subprocess.run(
                [*_PYKLIENT, "produce", "clicks", "-q"], input=b"kept\n", env=there, check=True, timeout=60
            )
            process.send_signal(signal.SIGINT)
            assert process.wait(timeout=60) == 0
            assert b"Traceback" not in process.stderr.read()


def test_without_its_extra_the_command_says_how_to_get_it(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'click'\", name='click')\n"
    )
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        [*_PYKLIENT, "topics", "list"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    assert "pip install '.[cli]' in the clone" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_without_its_extra_the_command_tells_what_is_installed(tmp_path: Path, missing: str) -> None:
    (tmp_path / f"{missing}.py").write_text(
        f"raise ModuleNotFoundError(\"No module named '{missing}'\", name='{missing}')\n"
    )
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    bare, whole = (
        subprocess.run([*_PYKLIENT, "info"], env=each, capture_output=True, text=True, timeout=60, check=True)
        for each in (environment, os.environ | {"PYTHONPATH": str(ROOT)})
    )
    assert bare.stdout == whole.stdout
    assert f"pyklient   {VERSION}" in bare.stdout
    pinned = subprocess.run(
        [*_PYKLIENT, "info"],
        env=environment | {"PYKLIENT_KERNEL": "fast"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (pinned.returncode, pinned.stderr.count("\n")) == (2, 1)


@pytest.mark.parametrize("pin", ["c", "Python"])
def test_a_kernel_that_there_is_none_of_is_a_sentence(pin: str) -> None:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYKLIENT_KERNEL": pin}
    done = subprocess.run(
        [*_PYKLIENT, "info"], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert done.stderr == (
        f"pyklient: PYKLIENT_KERNEL={pin} names no kernel; set it to 'compiled' or 'python'\n"
    )


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker
