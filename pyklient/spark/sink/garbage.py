"""Python's cyclic garbage collector, held back where a task's objects are rows."""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["rare_collections"]

_OBJECTS: Final = 50_000
"""Between two collections, in place of Python's 700: some megabytes of rows."""

_lock = threading.Lock()
_inside = 0
_usual = gc.get_threshold()


@contextmanager
def rare_collections() -> Iterator[None]:
    """The youngest objects are gone through less often within the ``with`` block, in all threads.

    Rows come by the thousand, are objects that the collector follows, and are gone before they could be in a
    cycle: going through them again and again takes a fifth of a worker's time. A collector that is switched
    off stays so, and so does one that is set to come even less often.
    """
    global _inside, _usual
    with _lock:
        if not _inside:
            _usual = gc.get_threshold()
            if 0 < _usual[0] < _OBJECTS:
                gc.set_threshold(_OBJECTS, *_usual[1:])
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                gc.set_threshold(*_usual)
