"""Finds and loads a compiled kernel that was built from the same sources as the imported modules of pyklient.

Usually the kernel is in the same folder as these modules. However, if Python is started in a clone of
pyklient that has no kernel, the modules of the clone are imported. In that case, the kernel of an installed
pyklient is loaded if it was built from the same sources.
"""

import importlib.util
import os
import sys
from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from types import ModuleType
from typing import Final

from pyklient.kernel.source_digest import has_sources, mark, mark_in
from pyklient.version import VERSION

__all__ = ["find_compiled"]

_NAME: Final = "pyklient.kernel._kernel"
_HERE: Final = os.path.dirname(os.path.abspath(__file__))


def find_compiled() -> ModuleType | str:
    """Load and return the compiled kernel. If there is none that can be used, return the reason as text."""
    wanted = mark(VERSION, _HERE)
    others: list[str] = []
    try:
        for file in _files():
            if _belongs(mark_in(file), wanted):
                return _load(file)
            others.append(file)
    except (ImportError, OSError) as error:
        return f"the compiled kernel does not load: {error}"
    if others:
        return f"{others[0]} was built from other sources than these; install pyklient again"
    return (
        f"there is no compiled kernel in {_HERE} or in another pyklient on sys.path; install a C compiler "
        "and Python's headers, then install pyklient again"
    )


def _files() -> Iterator[str]:
    """Yield the path of each compiled kernel that can be found: first the kernel in the folder of this
    module, then the kernels in other installations of pyklient on ``sys.path``.

    If the folder of this module does not have the kernel's sources, other installations are skipped. Without
    these sources, the caller cannot check that other kernels fit: the same version number does not prove it.
    """
    beside = importlib.util.find_spec(_NAME)
    if beside is not None and beside.origin is not None:
        yield beside.origin
    if not has_sources(_HERE):
        return
    for entry in sys.path:
        folder = os.path.abspath(os.path.join(entry, *_NAME.split(".")[:-1]))
        if folder != _HERE:
            files = (os.path.join(folder, f"_kernel{suffix}") for suffix in EXTENSION_SUFFIXES)
            yield from filter(os.path.isfile, files)


def _belongs(found: str, wanted: str) -> bool:
    """Return True if a compiled kernel fits the imported modules of pyklient.

    *found* is the mark in the kernel's file: a text that identifies its version and its sources. *wanted* is
    the mark that a kernel for these modules has.
    """
    name, version, sources = wanted.split(";")[:3]
    return found == wanted or (not sources and found.startswith(f"{name};{version};"))


def _load(file: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(_NAME, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[_NAME] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[_NAME]
        raise
    return module
