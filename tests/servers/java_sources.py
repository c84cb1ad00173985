"""Java programs of the tests, compiled once per machine.

``java Program.java`` compiles the program at each start, which takes five times as long as the start itself.
"""

import hashlib
import subprocess
import tempfile
from pathlib import Path

from tests.servers.class_archive import java_build
from tests.servers.maven import locked

__all__ = ["CompileError", "compiled"]

_TIMEOUT = 120
_JAVAC = "jdk.compiler/com.sun.tools.javac.Main"


class CompileError(Exception):
    """A Java program cannot be compiled; the message ends with the compiler's output."""


def compiled(source: Path, libs: Path, java: str, jvm: tuple[str, ...]) -> Path:
    """Return the directory with the classes of *source*. Compile it first, with the jars of *libs*, if that
    has not been done before: by the program *java*, with the options *jvm*.

    Raises CompileError.
    """
    text = source.read_bytes()
    digest = hashlib.sha256(text + java_build(java).encode()).hexdigest()[:12]
    programs = libs.parent / "programs"
    classes = programs / f"{source.stem}-{digest}"
    if not classes.exists():
        programs.mkdir(exist_ok=True)
        with locked(programs / "lock"):
            if not classes.exists():
                with tempfile.TemporaryDirectory(dir=programs) as scratch:
                    unfinished = Path(scratch) / "classes"
                    _compile(source, libs, [java, *jvm], unfinished)
                    unfinished.replace(classes)
    return classes


def _compile(source: Path, libs: Path, java: list[str], classes: Path) -> None:
    path = ":".join(map(str, sorted(libs.glob("*.jar"))))
    options = ("-proc:none", "-cp", path, "-d", str(classes))
    ran = subprocess.run(
        [*java, "-m", _JAVAC, *options, str(source)],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT,
        check=False,
    )
    if ran.returncode != 0:
        raise CompileError(f"{source} does not compile with the jars in {libs}:\n{ran.stdout}{ran.stderr}")
