"""Numbers of things, as error messages and logs show them."""

__all__ = ["counted"]


def counted(count: int, one: str, several: str | None = None) -> str:
    """Return *count* followed by a noun: *one* if *count* is 1, and otherwise *several*. By default,
    *several* is *one* with an s. For example: ``1 partition``, ``0 partitions``, ``1,234 partitions``."""
    return f"{count:,} {one if count == 1 else several or f'{one}s'}"
