"""Copies of the tree, in which mistakes are made. The work tree itself is never changed."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

from tools.mutants.mutant import Mutant, is_kernel_source
from tools.repository import ROOT

__all__ = ["KERNEL_FOLDER", "SUFFIX", "BrokenMutant", "TreeCopy", "fetch_build_tools"]


KERNEL_FOLDER = Path("pyklient/kernel")
SUFFIX: str = sysconfig.get_config_var("EXT_SUFFIX")
"""The end of the compiled kernel's file name for the running Python."""
_BUILD_SECONDS = 300


class BrokenMutant(Exception):
    """Raised if the code with the mistake cannot be built."""


class TreeCopy:
    """A copy of the files that git tracks, or would track, and of the compiled kernel.

    Byte code is validated by hashes, because time stamps do not show that a file changes twice in a second.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._original = ""
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            check=True,
        )
        for name in listed.stdout.decode().split("\0"):
            if name and (ROOT / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name)
        kernel = ROOT / KERNEL_FOLDER / f"_kernel{SUFFIX}"
        if not kernel.is_file():
            raise SystemExit(f"there is no compiled kernel at {kernel}: run `pip install -e .` first")
        self._kernel = kernel.read_bytes()
        self._write_kernel()
        _sharpen_build(folder / "pyproject.toml")
        subprocess.run(
            [sys.executable, "-m", "compileall", "-qq", "--invalidation-mode", "checked-hash", "pyklient"],
            cwd=folder,
            check=True,
        )

    def environment(self) -> dict[str, str]:
        """Return the environment in which Python takes this copy's packages, and no others."""
        return os.environ | {
            "PYTHONPATH": str(self.folder),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYKLIENT_KERNEL": "compiled",
        }

    def apply(self, mutant: Mutant, build_tools: Path | None) -> None:
        """Make the mistake. Raises BrokenMutant if it does not compile."""
        path = self.folder / mutant.file
        self._original = path.read_text(encoding="utf-8")
        path.write_text(mutant.applied_to(self._original), encoding="utf-8")
        if is_kernel_source(mutant.file):
            assert build_tools is not None
            self._build(build_tools)

    def restore(self, mutant: Mutant) -> None:
        """Undo ``apply``."""
        (self.folder / mutant.file).write_text(self._original, encoding="utf-8")
        if is_kernel_source(mutant.file):
            self._write_kernel()

    def _write_kernel(self) -> None:
        # Replaced by a new file, because a process may still use the old one.
        path = self.folder / KERNEL_FOLDER / f"_kernel{SUFFIX}"
        path.unlink(missing_ok=True)
        path.write_bytes(self._kernel)

    def _build(self, build_tools: Path) -> None:
        built = subprocess.run(
            [
                sys.executable,
                "-c",
                "import setuptools; setuptools.setup()",
                "build_ext",
                "--inplace",
                "--force",
            ],
            cwd=self.folder,
            env=os.environ | {"PYTHONPATH": str(build_tools)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_BUILD_SECONDS,
            check=False,
        )
        if built.returncode:
            raise BrokenMutant("the kernel does not compile:\n" + built.stdout)


def fetch_build_tools(folder: Path) -> Path:
    """Install the build requirements of ``pyproject.toml`` into *folder*."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    needed: list[str] = project["build-system"]["requires"]
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*pip, "--target", str(folder), *needed], check=True)
    return folder


def _sharpen_build(project: Path) -> None:
    """Let a kernel that does not compile be an error, and compile without the slow optimizations."""
    text = project.read_text(encoding="utf-8")
    text = re.sub(r"^optional = true\n", "", text, flags=re.MULTILINE)
    project.write_text(text.replace('extra-compile-args = ["-O3"]', 'extra-compile-args = ["-O1"]'))
