"""The sentence that says how many committed offsets of a group a command has changed."""

from pyklient.cli.standard_streams import complain
from pyklient.counted import counted

__all__ = ["say_what_changed"]


def say_what_changed(group: str, changed: int, unchanged: int) -> None:
    """Print a sentence on standard error: a command has changed *changed* offsets of *group*, and has left
    *unchanged* offsets as they were."""
    same = f"; {counted(unchanged, 'offset')} stayed the same" if unchanged else ""
    complain(f"changed {counted(changed, 'offset')} of group {group}{same}")
