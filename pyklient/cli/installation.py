"""Collects the versions of pyklient, Python and the packages for compression, and the name of the kernel in
use. This module does not import click, so it also works without the packages that the command line needs."""

import importlib.metadata
import platform
from typing import Any, Final

from pyklient import kernel
from pyklient.version import VERSION

__all__ = ["as_lines", "facts"]

_CODECS: Final = {"gzip": None, "snappy": "python-snappy", "lz4": "lz4", "zstd": "zstandard"}
"""The package that implements each codec. None stands for the standard library."""


def facts() -> dict[str, Any]:
    """Return the facts that ``pyklient info`` shows, as a dict of values by name."""
    found: dict[str, Any] = {
        "pyklient": VERSION,
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "platform": platform.platform(),
        "kernel": kernel.name,
    }
    if kernel.file:
        found["file"] = kernel.file
    if kernel.not_compiled:
        found["why"] = kernel.not_compiled
    found["codecs"] = {
        codec: f"{package} {importlib.metadata.version(package)}" if package else "standard library"
        for codec, package in _CODECS.items()
    }
    return found


def as_lines(found: dict[str, Any]) -> list[str]:
    """Return *found*, a result of ``facts``, as lines of text with one fact in each line."""
    flat = {name: fact for name, fact in found.items() if name != "codecs"} | found["codecs"]
    return [f"{name:10} {fact}" for name, fact in flat.items()]
