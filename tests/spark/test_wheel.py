"""Spark finds ``format("pyklient")`` if pyklient is installed from a wheel, as users install it."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.servers.fixtures import NewTopic
from tests.servers.java import spark_jvm
from tests.spark.topics import fill, number_records
from tools.repository import ROOT

pytestmark = [pytest.mark.java, pytest.mark.brokers(real=False), pytest.mark.timeout(600)]

_TIMEOUT = 500
_PARTS = ("pyklient", "kernel_build.py", "pyproject.toml", "pyspark_pyklient.py", "README.md", "LICENSE")
_BUILT = shutil.ignore_patterns("*.so", "*.c", "__pycache__")
_PROGRAM = """
import sys
import pyklient
from pyspark.sql import SparkSession

servers, topic, jvm = sys.argv[1:]
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.extraJavaOptions", jvm)
reader = builder.getOrCreate().read.format("pyklient")
print(reader.option("kafka.bootstrap.servers", servers).option("subscribe", topic).load().count())
print(pyklient.__file__)
"""


def run(directory: Path, *command: object, **variables: str) -> str:
    ran = subprocess.run(
        [str(word) for word in command],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
        check=False,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | variables,
    )
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
    return ran.stdout


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The interpreter of an environment in which pyklient comes from the wheel, and all other packages from
    this one."""
    source, wheels, home = tmp_path / "source", tmp_path / "wheels", tmp_path / "environment"
    source.mkdir()
    for part in _PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, source / part, ignore=_BUILT)
        else:
            shutil.copy(ROOT / part, source / part)
    # The compiled kernel is not the matter here: Cython translates nothing, and no compiler is found.
    (source / "pyklient" / "kernel" / "compiled" / "_kernel.pyx").write_text("")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    building = [*pip, "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", wheels, source]
    run(tmp_path, *building, CC="false")
    run(tmp_path, sys.executable, "-m", "venv", "--without-pip", home)
    python = home / "bin" / "python"
    (wheel,) = wheels.glob("*.whl")
    run(tmp_path, *pip, "--python", python, "install", "-q", "--no-deps", wheel)
    # A line of a .pth file is a directory to look in; .pth files there, an editable install's, are not read.
    packages = Path(
        run(tmp_path, python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    )
    (packages / "beside.pth").write_text(sysconfig.get_path("purelib"))
    return python


def test_spark_finds_the_source_of_an_installed_wheel(
    installed: Path, bootstrap: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic = new_topic()
    fill(bootstrap, topic, number_records(range(3)))
    variables = {"PYSPARK_PYTHON": str(installed), "SPARK_LOCAL_IP": "127.0.0.1"}
    printed = run(tmp_path, installed, "-c", _PROGRAM, bootstrap, topic, spark_jvm(), **variables)
    count, path = printed.split()
    assert count == "3"
    assert Path(path).is_relative_to(installed.parents[1])
