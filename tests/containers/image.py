"""An image with Kafka: the official image or, if it cannot be pulled, one built from Maven's jars.

Both have a Java runtime on the path, Kafka's jars in ``/opt/kafka/libs`` and a shell.
"""

import hashlib
import re
import shutil
import subprocess
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

from tests.servers.maven import kafka_libs
from tests.servers.programs import MissingProgramError, program

__all__ = ["OFFICIAL", "ImageError", "kafka_image"]

_VERSION = "4.3.1"
OFFICIAL = f"apache/kafka:{_VERSION}"
_RECIPE = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]
_OWN = f"pyklient-tests/kafka:{_VERSION}-{_RECIPE}"
_PULL_TIMEOUT, _BUILD_TIMEOUT = 300, 300
_MODULES = (
    "java.base,java.desktop,java.instrument,java.logging,java.management,java.naming,java.net.http,java.rmi,"
    "java.security.jgss,java.security.sasl,java.sql,java.xml,jdk.crypto.ec,jdk.management,jdk.unsupported"
)
_DOCKERFILE = """\
FROM scratch
COPY root/ /
ENV PATH=/opt/java/bin:/bin
CMD ["/bin/sh"]
"""


class ImageError(Exception):
    """No image is available; the message says what was tried."""


def kafka_image() -> str:
    """Return the name of an image with Kafka 4.3.1 on this machine. It is pulled or built if necessary, which
    takes up to a minute.

    Raises MissingProgramError if Docker, or a program that the build needs, is not installed or not running.
    """
    _require_engine()
    for name in (OFFICIAL, _OWN):
        if _docker("image", "inspect", name, timeout=30).returncode == 0:
            return name
    pulled = _docker("pull", "--quiet", OFFICIAL, timeout=_PULL_TIMEOUT)
    if pulled.returncode == 0:
        return OFFICIAL
    with tempfile.TemporaryDirectory() as scratch:
        _lay_out(Path(scratch) / "root", Path(scratch) / "natives")
        (Path(scratch) / "Dockerfile").write_text(_DOCKERFILE)
        built = _docker("build", "--tag", _OWN, scratch, timeout=_BUILD_TIMEOUT)
    if built.returncode != 0:
        raise ImageError(f"{OFFICIAL} not pulled: {pulled.stderr}\n{_OWN} not built: {built.stderr}")
    return _OWN


def _docker(*arguments: str, timeout: float) -> subprocess.CompletedProcess[str]:
    command = [program("docker"), *arguments]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"no answer within {timeout:g} s")


def _require_engine() -> None:
    answered = _docker("version", "--format", "{{.Server.Version}}", timeout=30)
    if answered.returncode != 0:
        raise MissingProgramError(
            "no Docker engine answers; install one and start it (Debian: apt-get install docker.io, then "
            f"`service docker start` or `dockerd &`; macOS: open Docker Desktop)\n{answered.stderr.strip()}"
        )


def _lay_out(root: Path, natives: Path) -> None:
    """Write all files of the image into the directory *root*."""
    java = root / "opt/java"
    java.parent.mkdir(parents=True)
    jlink = [program("jlink"), "--add-modules", _MODULES, "--strip-debug", "--no-man-pages"]
    subprocess.run([*jlink, "--no-header-files", "--output", str(java)], check=True, timeout=_BUILD_TIMEOUT)
    shutil.copytree(kafka_libs(_VERSION), root / "opt/kafka/libs")
    _unpack_natives(root / "opt/kafka/libs", natives)
    busybox = Path(program("busybox"))
    for library in _libraries([busybox, java / "bin/java", *java.rglob("*.so"), *natives.rglob("*.so")]):
        target = root / library.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library, target)
    (root / "bin").mkdir(exist_ok=True)
    shutil.copy(busybox, root / "bin/busybox")
    for name in ("sh", "sleep"):
        (root / "bin" / name).symlink_to("busybox")
    (root / "tmp").mkdir()
    (root / "etc").mkdir(exist_ok=True)
    (root / "etc/passwd").write_text("root:x:0:0:root:/tmp:/bin/sh\n")


def _unpack_natives(libs: Path, target: Path) -> None:
    """Copy the shared libraries that the jars unpack and load at run time, which are the codecs."""
    for jar in libs.glob("*.jar"):
        with zipfile.ZipFile(jar) as archive:
            archive.extractall(
                target / jar.stem, [name for name in archive.namelist() if name.endswith(".so")]
            )


def _libraries(binaries: Sequence[Path]) -> set[Path]:
    """Return the system's shared libraries that *binaries* load, including the loader."""
    found: set[Path] = set()
    for binary in binaries:
        listed = subprocess.run(["ldd", str(binary)], capture_output=True, text=True, timeout=30).stdout
        found |= {Path(path) for path in re.findall(r"(/\S+) \(0x", listed)}
    return {path for path in found if not any(path.is_relative_to(binary.parent) for binary in binaries)}
