"""Numbers of things in messages and logs."""

__all__ = ["counted"]


def counted(count: int, one: str, several: str | None = None) -> str:
    """Return *count* and what is counted: *one* for a count of 1, and otherwise *several*, by default *one*
    with an s. For example: ``1 partition``, ``0 partitions``, ``1,234 partitions``."""
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"
