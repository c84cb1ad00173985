"""Calls functions at the end of the process, including processes that multiprocessing has forked.

Such a process ends by ``os._exit``. Before Python 3.13 it does not call the functions that are registered
with ``atexit``, but it calls multiprocessing's own finalizers.
"""

import atexit
import os
import sys
from collections.abc import Callable

__all__ = ["call_at_exit"]

_finalizers: dict[Callable[[], None], int] = {}
"""The id of the process in which each function was registered with multiprocessing."""


def call_at_exit(function: Callable[[], None]) -> None:
    """Call *function* at the end of this process, before the functions that were registered earlier. It may
    be called more than once, and registered again."""
    atexit.unregister(function)
    atexit.register(function)
    process = sys.modules.get("multiprocessing.process")
    if process is None or process.parent_process() is None or _finalizers.get(function) == os.getpid():
        return
    from multiprocessing import util

    util.Finalize(None, function, exitpriority=0)
    _finalizers[function] = os.getpid()
