"""Which kernel runs, and that a pin is never silently ignored."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pyklient.protocol.records import kernel
from tests.protocol.records.kernels import KERNELS

pytestmark = pytest.mark.both_kernels

UNMADE = """
from pyklient.protocol.records.kernel import ColumnFilling, Delivery
def outcome_of(call):
    try:
        return call()
    except (AttributeError, TypeError) as error:
        return type(error).__name__
bare = Delivery.__new__(Delivery)
uses = [lambda: bare.topic, lambda: bare.partition, bare.done, bare.result, bare.exception,
        lambda: bare.add_done_callback(print), bare.__reduce__, lambda: repr(bare), lambda: hash(bare)]
print({outcome_of(use) for use in uses})
print(outcome_of(lambda: ColumnFilling.__new__(ColumnFilling).finish()) in ("AttributeError", "TypeError"))
"""

SAY = "from pyklient.protocol.records import kernel; print(kernel.name, kernel.not_compiled, sep='|')"

BROKEN = """
import sys
class Broken:
    def find_spec(self, name, path=None, target=None):
        if name.endswith('records._kernel'):
            raise ImportError('undefined symbol: PyFoo')
sys.meta_path.insert(0, Broken())
"""


def imported(
    program: str = SAY, *, folder: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """What a new interpreter says of its kernel."""
    variables = {name: value for name, value in os.environ.items() if name != "PYKLIENT_KERNEL"}
    return subprocess.run(
        [sys.executable, "-c", program],
        env=variables | environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_it_says_which_one_runs() -> None:
    assert kernel.name == ("python" if kernel.not_compiled else "compiled")
    assert imported(PYKLIENT_KERNEL=kernel.name).stdout.startswith(f"{kernel.name}|")


def test_the_compiled_one_is_taken_where_it_loads() -> None:
    assert imported().stdout == imported(PYKLIENT_KERNEL="").stdout == "compiled|\n"


def test_either_can_be_pinned() -> None:
    assert imported(PYKLIENT_KERNEL="compiled").stdout == "compiled|\n"
    assert imported(PYKLIENT_KERNEL="python").stdout == "python|PYKLIENT_KERNEL=python\n"


@pytest.mark.parametrize("pin", ["c", "Python", "fast"])
def test_a_pin_that_is_none_is_an_import_error(pin: str) -> None:
    ran = imported(PYKLIENT_KERNEL=pin)
    assert ran.returncode != 0
    assert f"ImportError: PYKLIENT_KERNEL={pin}" in ran.stderr


def test_one_that_does_not_load_is_passed_over_unless_it_is_pinned() -> None:
    assert imported(BROKEN + SAY).stdout == "python|it does not load: undefined symbol: PyFoo\n"
    ran = imported(BROKEN + SAY, PYKLIENT_KERNEL="compiled")
    assert ran.returncode != 0
    assert (
        "ImportError: PYKLIENT_KERNEL=compiled, but it does not load: undefined symbol: PyFoo" in ran.stderr
    )


def test_one_that_was_not_built_is_passed_over_unless_it_is_pinned(tmp_path: Path) -> None:
    package = Path(kernel.__file__).parents[2]
    (tmp_path / "pyklient").mkdir()
    for source in package.rglob("*.py"):
        copy = tmp_path / "pyklient" / source.relative_to(package)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(source.read_bytes())
    ran = imported(folder=tmp_path, PYTHONPATH=str(tmp_path))
    assert ran.stdout.startswith("python|it was not built when pyklient was installed")
    ran = imported(folder=tmp_path, PYTHONPATH=str(tmp_path), PYKLIENT_KERNEL="compiled")
    assert "ImportError: PYKLIENT_KERNEL=compiled, but it was not built" in ran.stderr


def test_everything_it_exports_is_there_and_of_one_kernel() -> None:
    exported = [getattr(kernel, name) for name in kernel.__all__ if name not in ("name", "not_compiled")]
    homes = {getattr(one, "__module__", None) for one in exported}
    assert None not in exported
    assert not (any("_py" in str(home) for home in homes) and kernel.name == "compiled")


@pytest.mark.parametrize("pin", ["compiled", "python"])
def test_what_was_never_made_up_raises_instead_of_crashing(pin: str) -> None:
    ran = imported(UNMADE, PYKLIENT_KERNEL=pin)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "{'AttributeError'}\nTrue\n", "")


@pytest.mark.parametrize("name", ["Message", "Delivery"])
@pytest.mark.parametrize("twin", KERNELS, ids=lambda twin: str(twin.name))
def test_what_there_are_millions_of_has_no_subclasses(twin: Any, name: str) -> None:
    with pytest.raises(TypeError, match=rf"kernel\.{name}' is not an acceptable base type"):
        type("Mine", (getattr(twin, name),), {})
