"""The sentence that says how many committed offsets of a group a command has changed."""

from pyklient.cli.standard_streams import complain
from pyklient.counted import counted

__all__ = ["say_what_changed"]


def say_what_changed(group: str, changed: int, unchanged: int) -> None:
    """Print on standard error how many offsets of *group* a command has changed and left *unchanged*."""
    same = f"; {counted(unchanged, 'offset')} stayed the same" if unchanged else ""
    complain(f"changed {counted(changed, 'offset')} of group {group}{same}")
