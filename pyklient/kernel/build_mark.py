"""What a compiled kernel was built from: a text that the build puts into the file, and that loading reads.

A kernel of other sources may lack what the Python modules around it need, or mean something else by it. So it
is told from the right one before any of its code runs. The build runs this file by itself: it imports nothing
of the package.
"""

import hashlib
import mmap
import re
from pathlib import Path
from typing import Final

__all__ = ["has_sources", "mark", "mark_in"]

_MARK: Final = re.compile(rb"pyklient-kernel;[\w.+-]+;[0-9a-f]*;")


def mark(version: str, folder: str | Path) -> str:
    """The mark of a kernel of pyklient *version*, whose sources are in *folder*; without sources, as in an
    installed package, their place in it is empty."""
    digest = hashlib.blake2b(digest_size=16)
    sources = _sources(Path(folder))
    for source in sources:
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return f"pyklient-kernel;{version};{digest.hexdigest() if sources else ''};"


def has_sources(folder: Path) -> bool:
    """Whether the kernel's sources are in *folder*."""
    return bool(_sources(folder))


def mark_in(file: str) -> str:
    """The mark of the kernel in *file*; empty where it has none. Raises OSError."""
    with open(file, "rb") as opened:
        try:
            content = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:
            return ""  # the file is empty
        with content:
            found = _MARK.search(content)
            return "" if found is None else found[0].decode()


def _sources(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("_*") if path.suffix in (".pyx", ".pxd", ".pxi"))
