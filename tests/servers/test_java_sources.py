"""Java programs of the tests are compiled once, and again when they change."""

import subprocess
from pathlib import Path

import pytest

from tests.servers.java import java_command
from tests.servers.java_sources import CompileError

pytestmark = pytest.mark.java

_SOURCE = """
public class Hello {
    public static void main(String[] words) {
        System.out.println("hello " + String.join(" ", words));
    }
}
"""


def _run(libs: Path, source: Path) -> tuple[str, Path]:
    """Return what the program prints, and the directory of its classes."""
    command = java_command(libs, str(source), "old", "world", heap="32m")
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return ran.stdout.strip(), Path(command[command.index("-cp") + 1].split(":")[-1])


def test_a_program_is_compiled_once_and_again_when_it_changes(tmp_path: Path) -> None:
    libs, source = tmp_path / "libs", tmp_path / "Hello.java"
    source.write_text(_SOURCE)
    said, classes = _run(libs, source)
    assert said == "hello old world"
    (compiled,) = classes.iterdir()
    before = compiled.stat().st_mtime_ns
    assert _run(libs, source) == (said, classes)
    assert compiled.stat().st_mtime_ns == before
    source.write_text(_SOURCE.replace("hello", "good bye"))
    assert _run(libs, source)[0] == "good bye old world"


def test_a_program_that_does_not_compile_is_named_with_what_the_compiler_says(tmp_path: Path) -> None:
    source = tmp_path / "Hello.java"
    source.write_text(_SOURCE.replace("String[]", "Sting[]"))
    with pytest.raises(CompileError, match=r"Hello\.java does not compile(?s:.*)symbol:\s+class Sting"):
        java_command(tmp_path / "libs", str(source))
    assert [each.name for each in (tmp_path / "programs").iterdir()] == ["lock"]
