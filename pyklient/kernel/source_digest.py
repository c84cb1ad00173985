"""The mark of a compiled kernel: a text in its file that identifies the sources from which it was built.

A kernel that was built from other sources than those in the clone may not fit the Python modules around it.
Therefore its mark is compared before any of its code runs. The build runs this file by itself, so the file
imports nothing of the package.
"""

import hashlib
import mmap
import re
from pathlib import Path
from typing import Final

__all__ = ["has_sources", "mark", "mark_in"]

_MARK: Final = re.compile(rb"pyklient-kernel;[\w.+-]+;[0-9a-f]*;")


def mark(version: str, folder: str | Path) -> str:
    """Return the mark that a kernel of pyklient *version* has if it was built from the sources in *folder*.

    If there are no sources, as in an installed package, the mark has no digest.
    """
    digest = hashlib.blake2b(digest_size=16)
    sources = _sources(Path(folder))
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return f"pyklient-kernel;{version};{digest.hexdigest() if sources else ''};"


def has_sources(folder: Path) -> bool:
    """Return True if *folder* has the sources of the kernel."""
    return bool(_sources(folder))


def mark_in(file: str) -> str:
    """Return the mark of the compiled kernel in *file*; empty if it has none. Raises OSError if the file
    cannot be read."""
    with open(file, "rb") as opened:
        try:
            content = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:
            return ""  # the file is empty
        with content:
            found = _MARK.search(content)
            return "" if found is None else found[0].decode()


def _sources(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix in (".pyx", ".pxd", ".pxi"))
