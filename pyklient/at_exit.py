"""Calls functions at the end of a process, also of a process that multiprocessing has forked.

Before Python 3.13, a process that multiprocessing has forked does not call the functions that are registered
with ``atexit``. It calls only multiprocessing's own finalizers, so functions are registered as such
finalizers, too.
"""

import atexit
import os
import sys
from collections.abc import Callable

__all__ = ["call_at_exit"]

_finalizers: dict[Callable[[], None], int] = {}
"""The functions registered with multiprocessing, each with the id of the process that registered it."""


def call_at_exit(function: Callable[[], None]) -> None:
    """Call *function* at the end of this process, before the functions that were registered earlier.

    If *function* is registered already, it moves to the front. It may be called twice, by ``atexit`` and by
    multiprocessing, so a second call must do no harm.
    """
    atexit.unregister(function)
    atexit.register(function)
    process = sys.modules.get("multiprocessing.process")
    if process is None or process.parent_process() is None or _finalizers.get(function) == os.getpid():
        return
    from multiprocessing import util

    util.Finalize(None, function, exitpriority=0)
    _finalizers[function] = os.getpid()
