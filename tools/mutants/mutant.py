"""One deliberate mistake in the code, and the tests that must notice it."""

from dataclasses import dataclass
from pathlib import Path

__all__ = ["Mutant", "StaleMutant", "is_kernel_source"]


class StaleMutant(Exception):
    """Raised if the code has changed so that the mutant no longer fits it."""


@dataclass(frozen=True)
class Mutant:
    """Replace *old*, which occurs exactly once in *file*, with *new*; at least one of *tests* must fail.

    *name* begins with the folder in ``pyklient/``, or with ``tests`` or ``tools``. *file* is relative to the
    root of the tree. *tests* are files or node ids for pytest. They run with the compiled kernel of records;
    those of the kernels themselves try both.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def applied_to(self, source: str) -> str:
        """Return *source* with the mistake in it. Raises StaleMutant unless *old* occurs exactly once."""
        found = source.count(self.old)
        if found != 1:
            raise StaleMutant(
                f"{self.name}: the text to replace occurs {found} times in {self.file}, and must occur once: "
                f"{self.old!r}. The code has changed: correct the mutant in tools/mutants/catalog/"
            )
        return source.replace(self.old, self.new)

    def check(self, root: Path) -> None:
        """Raise StaleMutant unless the mutant fits the tree at *root*."""
        path = root / self.file
        if not path.is_file():
            raise StaleMutant(f"{self.name}: there is no file {self.file}")
        mutated = self.applied_to(path.read_text(encoding="utf-8"))
        if path.suffix == ".py":
            try:
                compile(mutated, self.file, "exec")
            except SyntaxError as error:
                raise StaleMutant(f"{self.name}: the result is not valid Python: {error}") from None
        for test in self.tests:
            if not (root / test.partition("::")[0]).exists():
                raise StaleMutant(f"{self.name}: there is no test file {test}")


def is_kernel_source(file: str) -> bool:
    """Return True if the kernel must be compiled again after a change of *file*."""
    return file.endswith((".pyx", ".pxi", ".pxd"))
