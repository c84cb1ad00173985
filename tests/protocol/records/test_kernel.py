"""Which kernel runs, and that a pin is never silently ignored."""

import os
import subprocess
import sys

import pytest

from pyklient.protocol.records import kernel


def imported(**environment: str) -> subprocess.CompletedProcess[str]:
    """What a new interpreter says of its kernel."""
    program = "from pyklient.protocol.records import kernel; print(kernel.name)"
    variables = {name: value for name, value in os.environ.items() if name != "PYKLIENT_KERNEL"}
    return subprocess.run(
        [sys.executable, "-c", program],
        env=variables | environment,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_it_says_which_one_runs() -> None:
    assert kernel.name in ("python", "compiled")
    assert imported(PYKLIENT_KERNEL="").stdout == imported().stdout == f"{kernel.name}\n"
    assert imported(PYKLIENT_KERNEL=kernel.name).stdout == f"{kernel.name}\n"


@pytest.mark.parametrize("pin", ["c", "Python", "fast"])
def test_a_pin_that_cannot_be_loaded_is_an_import_error(pin: str) -> None:
    ran = imported(PYKLIENT_KERNEL=pin)
    assert ran.returncode != 0
    assert f"ImportError: PYKLIENT_KERNEL={pin}" in ran.stderr


def test_everything_it_exports_is_there() -> None:
    for name in kernel.__all__:
        assert getattr(kernel, name) is not None
