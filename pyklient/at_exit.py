"""Calls at the end of the process, also where multiprocessing has forked it.

Such a process ends by ``os._exit``, and before Python 3.13 without the functions that are registered with
``atexit``. What multiprocessing calls there are its own finalizers.
"""

import atexit
import os
import sys
from collections.abc import Callable

__all__ = ["call_at_exit"]

_finalizers: dict[Callable[[], None], int] = {}
"""The process in which each function was given to multiprocessing."""


def call_at_exit(function: Callable[[], None]) -> None:
    """Have *function* called at the end of this process, before what was registered earlier. It may be called
    more than once, and registered again."""
    atexit.unregister(function)
    atexit.register(function)
    process = sys.modules.get("multiprocessing.process")
    if process is None or process.parent_process() is None or _finalizers.get(function) == os.getpid():
        return
    from multiprocessing import util

    util.Finalize(None, function, exitpriority=0)
    _finalizers[function] = os.getpid()
