"""The records of these tests."""

from typing import NamedTuple

__all__ = ["START_MS", "Sent", "records"]

START_MS = 1_500_000_000_000


class Sent(NamedTuple):
    """A record as it was sent."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...]


def records(label: str, count: int = 20, *, timestamps: bool, headers: bool) -> list[Sent]:
    """Return *count* records, large enough for compression to shorten them, a second apart."""
    return [
        Sent(
            f"{label}-{number}".encode(),
            f"{label} {number} ".encode() * 20,
            START_MS + 1000 * number if timestamps else -1,
            (("n", str(number).encode()), ("none", None)) if headers else (),
        )
        for number in range(count)
    ]
