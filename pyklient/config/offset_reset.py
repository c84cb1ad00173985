"""The value ``by_duration:…`` of the option ``auto_offset_reset`` (KIP-1106)."""

import re
from datetime import timedelta

__all__ = ["duration_of"]

_PREFIX = "by_duration:"
# The format of java.time.Duration, without signs: Kafka accepts no negative duration.
_DURATION = re.compile(
    r"P(?:(?P<days>[0-9]+)D)?"
    r"(?P<time>T(?:(?P<hours>[0-9]+)H)?(?:(?P<minutes>[0-9]+)M)?(?:(?P<seconds>[0-9]+(?:[.,][0-9]{0,9})?)S)?)?",
    re.IGNORECASE,
)


def duration_of(value: str) -> timedelta | None:
    """Return the duration in *value*, such as ``by_duration:PT1H``. Return None if *value* has none."""
    found = _DURATION.fullmatch(value[len(_PREFIX) :]) if value.startswith(_PREFIX) else None
    if found is None:
        return None
    parts = {name: found[name] for name in ("days", "hours", "minutes", "seconds") if found[name]}
    if not parts or (found["time"] or "").upper() == "T":
        return None
    try:
        return timedelta(**{name: float(text.replace(",", ".")) for name, text in parts.items()})
    except OverflowError:
        return None
