"""A folder whose files are in memory, for servers whose disk would be slower than what is measured or tested.

On some disks, in particular those of virtual machines, ZooKeeper and KRaft wait long until what they have
written is on the disk, and a broker needs milliseconds for the first entry of each partition's index.
"""

import os
import shutil
from pathlib import Path
from typing import Final

__all__ = ["memory_folder"]

_MEMORY: Final = Path("/dev/shm")


def memory_folder(needed: int) -> Path | None:
    """Return a folder whose files are in memory, if *needed* bytes are free there. Otherwise return None."""
    if _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free >= needed:
        return _MEMORY
    return None
