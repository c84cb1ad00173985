"""PySpark 4.0.0 in addition to the installed one: fetched once per machine, and put before it on the path."""

import os
import shutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from tests.servers.maven import FetchError, cache, locked

__all__ = ["VERSION", "environment", "old_pyspark"]

VERSION = "4.0.0"
_ROOT = Path(__file__).parents[2]
_TIMEOUT = 600


def environment() -> dict[str, str]:
    """Return the environment of a process that imports PySpark 4.0.0 and is otherwise like this one."""
    path = os.pathsep.join([str(old_pyspark()), str(_ROOT)])
    kept = {name: value for name, value in os.environ.items() if name not in ("SPARK_HOME", "PYTHONPATH")}
    return kept | {"PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}


def old_pyspark() -> Path:
    """Return the directory of PySpark 4.0.0, which is fetched if necessary. Raises FetchError."""
    home = cache() / f"pyspark-{VERSION}"
    packages, complete = home / "packages", home / "complete"
    if not complete.exists():
        home.mkdir(parents=True, exist_ok=True)
        with locked(home / "lock"):
            if not complete.exists():
                with suppress(FileNotFoundError):
                    shutil.rmtree(packages)  # pip would leave what is there of an attempt that was cut off
                _install(packages)
                complete.touch()
    return packages


def _install(packages: Path) -> None:
    # Without py4j, which is the installed PySpark's too.
    command = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps"]
    command += ["--target", str(packages), f"pyspark=={VERSION}"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    if ran.returncode != 0:
        raise FetchError(
            f"pip could not fetch PySpark {VERSION}; is its index reachable?\n{ran.stderr[-2000:]}"
        )
