"""A virtual environment with pyklient as an archive, such as venv-pack makes, for the nodes of a cluster."""

import shutil
import subprocess
import sys
import sysconfig
import tarfile
from pathlib import Path

__all__ = ["pack"]

_ROOT = Path(__file__).parents[3]


def pack(directory: Path) -> Path:
    """Make the environment in *directory*. Large packages that pyklient needs are only linked, because all
    nodes are on this machine."""
    environment = directory / "environment"
    command = [sys.executable, "-m", "venv", "--without-pip", str(environment)]
    subprocess.run(command, check=True, capture_output=True)
    [packages] = environment.glob("lib/python*/site-packages")
    for name in ("pyklient", "pyspark_pyklient.py"):
        source, target = _ROOT / name, packages / name
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.c"))
        else:
            shutil.copy(source, target)
    # Adds this directory to the path, but none of its .pth files, by which an editable install is found.
    (packages / "others.pth").write_text(sysconfig.get_path("platlib") + "\n")
    archive = directory / "environment.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as packed:
        packed.add(environment, arcname=".")
    return archive
