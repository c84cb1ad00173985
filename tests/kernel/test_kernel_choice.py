"""The kernel is selected at import, and a kernel that was chosen explicitly is never replaced silently."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pyklient import kernel
from pyklient.kernel import _kernel
from pyklient.version import VERSION
from tests.kernel.kernels import KERNELS

pytestmark = pytest.mark.both_kernels

UNMADE = """
from pyklient.kernel import ColumnBuilder, Delivery
def outcome_of(call):
    try:
        return call()
    except (AttributeError, TypeError) as error:
        return type(error).__name__
bare = Delivery.__new__(Delivery)
uses = [lambda: bare.topic, lambda: bare.partition, bare.done, bare.result, bare.exception,
        lambda: bare.add_done_callback(print), bare.__reduce__, lambda: repr(bare), lambda: hash(bare)]
print({outcome_of(use) for use in uses})
print(outcome_of(lambda: ColumnBuilder.__new__(ColumnBuilder).finish()) in ("AttributeError", "TypeError"))
"""

SAY = "from pyklient import kernel; print(kernel.name, kernel.not_compiled, sep='|')"

WARN = """
import logging
from pyklient import Admin, Producer
logging.basicConfig(format="%(levelname)s %(name)s %(message)s")
Admin("127.0.0.1:1").close()
for _ in range(2):
    Producer("127.0.0.1:1").close()
"""

PACKAGE = Path(kernel.__file__).parents[1]
COMPILED_FILE = _kernel.__file__
FOLDER = Path("pyklient/kernel")

BROKEN = """
import sys
class Broken:
    def find_spec(self, name, path=None, target=None):
        if name.endswith('kernel._kernel'):
            raise ImportError('undefined symbol: PyFoo')
sys.meta_path.insert(0, Broken())
"""


def imported(
    program: str = SAY, *, folder: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run *program* in a new interpreter, which prints the kernel in use by default."""
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
    assert (
        imported(BROKEN + SAY).stdout == "python|the compiled kernel does not load: undefined symbol: PyFoo\n"
    )
    ran = imported(BROKEN + SAY, PYKLIENT_KERNEL="compiled")
    assert ran.returncode != 0
    assert (
        "a kernel that cannot be used: the compiled kernel does not load: undefined symbol: PyFoo"
        in ran.stderr
    )


def copied(folder: Path, *, sources: bool, compiled: bool) -> Path:
    """Copy the package into *folder*, with the installed compiled kernel if *compiled*. Return the directory
    of its kernel."""
    for source in PACKAGE.rglob("*"):
        wanted = {".py"} | ({".pyx", ".pxi", ".pxd"} if sources else set())
        if source.suffix in wanted or (compiled and str(source) == COMPILED_FILE):
            copy = folder / "pyklient" / source.relative_to(PACKAGE)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(source.read_bytes())
    return folder / FOLDER


def in_copy(folder: Path, program: str = SAY, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run *program* in a new interpreter that finds the package in *folder* before the installed one."""
    ran = imported(
        program, folder=folder, PYTHONPATH=os.pathsep.join((str(folder), str(PACKAGE.parent))), **environment
    )
    assert ran.returncode == 0 or "PYKLIENT_KERNEL" in environment, ran.stderr
    return ran


def test_one_that_is_nowhere_is_passed_over_unless_it_is_pinned(tmp_path: Path) -> None:
    records = copied(tmp_path, sources=False, compiled=False)
    ran = in_copy(tmp_path)
    assert ran.stdout.startswith(
        f"python|there is no compiled kernel in {records} or in another pyklient on sys.path; "
    )
    ran = in_copy(tmp_path, PYKLIENT_KERNEL="compiled")
    assert (
        "PYKLIENT_KERNEL=compiled asks for a kernel that cannot be used: there is no compiled" in ran.stderr
    )


def test_that_of_the_installed_package_serves_a_clone_with_the_same_sources(tmp_path: Path) -> None:
    copied(tmp_path, sources=True, compiled=False)
    assert in_copy(tmp_path).stdout == "compiled|\n"
    where = in_copy(tmp_path, "import pyklient; print(pyklient.__file__)")
    assert where.stdout == f"{tmp_path}/pyklient/__init__.py\n"


@pytest.mark.parametrize("beside", [True, False], ids=["beside", "installed"])
def test_one_of_other_sources_is_passed_over_unless_it_is_pinned(tmp_path: Path, beside: bool) -> None:
    records = copied(tmp_path, sources=True, compiled=beside)
    with (records / "compiled/decode/record_parsing.pxi").open("a") as source:
        source.write("\n# changed\n")
    file = records / Path(COMPILED_FILE).name if beside else COMPILED_FILE
    assert in_copy(tmp_path).stdout == (
        f"python|{file} was built from other sources than these; install pyklient again\n"
    )
    ran = in_copy(tmp_path, PYKLIENT_KERNEL="compiled")
    assert f"a kernel that cannot be used: {file} was built from other sources" in ran.stderr


@pytest.mark.parametrize("content", [b"", b"from before kernels were marked"], ids=["empty", "unmarked"])
def test_one_without_a_mark_is_not_loaded(tmp_path: Path, content: bytes) -> None:
    records = copied(tmp_path, sources=False, compiled=False)
    file = records / Path(COMPILED_FILE).name
    file.write_bytes(content)
    assert in_copy(tmp_path).stdout.startswith(f"python|{file} was built from other sources than these")


def test_an_installed_package_takes_the_kernel_of_its_own_version_only(tmp_path: Path) -> None:
    records = copied(tmp_path, sources=False, compiled=True)
    assert in_copy(tmp_path).stdout == "compiled|\n"
    version = tmp_path / "pyklient/version.py"
    version.write_text(version.read_text().replace(f'"{VERSION}"', '"99.0"'))
    file = records / Path(COMPILED_FILE).name
    assert in_copy(tmp_path).stdout.startswith(f"python|{file} was built from other sources than these")


def test_the_first_client_that_handles_records_warns_of_the_slow_kernel(tmp_path: Path) -> None:
    copied(tmp_path, sources=False, compiled=False)
    warned = in_copy(tmp_path, WARN).stderr.splitlines()
    assert len(warned) == 1
    assert warned[0].startswith(
        "WARNING pyklient Records are encoded and decoded in Python, which takes about ten times as long"
    )
    assert "there is no compiled kernel in" in warned[0]
    assert not in_copy(tmp_path, WARN, PYKLIENT_KERNEL="python").stderr
    assert not imported(WARN).stderr


def test_everything_it_exports_is_there_and_of_one_kernel() -> None:
    exported = [
        getattr(kernel, name)
        for name in kernel.__all__
        if name not in ("file", "is_pinned", "name", "not_compiled", "produce_codec")
    ]
    homes = {getattr(one, "__module__", None) for one in exported}
    assert None not in exported
    assert (kernel.produce_codec is None) is (kernel.name == "python")
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
