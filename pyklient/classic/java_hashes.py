"""The hash codes of objects in Java, by which classic producers choose partitions."""

from typing import Any, Final

from pyklient.kernel import array_hash, string_hash

__all__ = ["java_hash", "safe_abs"]

_INT_MIN: Final = -(2**31)


def java_hash(key: Any) -> int | None:
    """Return the hash that Java computes for an object like *key*; None if Java has no such object.

    A str is hashed like a String, a bool like a Boolean, and bytes like the contents of an array. A whole
    number is hashed like an Integer, or like a Long if it does not fit an Integer.

    >>> java_hash("hello"), java_hash(17), java_hash(2**40), java_hash(True), java_hash(3.0)
    (99162322, 17, 256, 1231, None)
    """
    match key:
        case str():
            return string_hash(key)
        case bytes() | bytearray() | memoryview():
            return array_hash(key)
        case bool():
            return 1231 if key else 1237
        case int() if -(2**31) <= key < 2**31:
            return key
        case int() if -(2**63) <= key < 2**63:
            return ((key ^ key >> 32) + 2**31 & 0xFFFFFFFF) - 2**31
        case _:
            return None


def safe_abs(number: int) -> int:
    """Return the absolute value of a number of 32 bits; 0 for the smallest number, whose absolute value needs
    more bits."""
    return 0 if number == _INT_MIN else abs(number)
