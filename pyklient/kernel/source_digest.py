"""The mark of a compiled kernel: a text in its file that identifies the sources from which it was built.

A kernel that was built from other sources may not fit the Python modules around it. Therefore its mark is
compared before any of its code runs. The build runs this file by itself, so the file imports nothing of the
package. It does without ``pathlib``, whose import takes time whenever a client starts.
"""

import mmap
import os
import re
from typing import Final

__all__ = ["has_sources", "mark", "mark_in"]

_MARK: Final = re.compile(rb"pyklient-kernel;[\w.+-]+;[0-9a-f]*;")


def mark(version: str, folder: str) -> str:
    """Return the mark that a kernel of pyklient *version* has if it was built from the sources in *folder*.

    If there are no sources, as in an installed package, the mark has no digest.
    """
    sources = _sources(folder)
    return f"pyklient-kernel;{version};{_digest(sources) if sources else ''};"


def has_sources(folder: str) -> bool:
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


def _digest(sources: list[str]) -> str:
    from hashlib import blake2b  # which an installed package does not need

    digest = blake2b(digest_size=16)
    for source in sources:
        with open(source, "rb") as opened:
            digest.update(os.path.basename(source).encode() + b"\0" + opened.read() + b"\0")
    return digest.hexdigest()


def _sources(folder: str) -> list[str]:
    found = [
        os.path.join(parent, name)
        for parent, _, names in os.walk(folder)
        for name in names
        if name.endswith((".pyx", ".pxd", ".pxi"))
    ]
    return sorted(found, key=lambda path: path.split(os.sep))
