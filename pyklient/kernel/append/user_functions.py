"""The functions of the user that ``send`` calls for a record, and the checks of their results.

Both kernels share this module. A kernel calls the functions itself. It calls these checks only for results
that it does not accept at once.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from pyklient.counted import counted
from pyklient.errors import ConfigurationError

__all__ = ["NO_FUNCTIONS", "UserFunctions", "checked_partition", "encoded_bytes"]


class UserFunctions(NamedTuple):
    """The encoders and the partitioner of a producer. Each may be None.

    An encoder gets a key or value, and returns bytes or None. The partitioner gets the topic, the encoded key
    and the number of partitions, and returns the number of a partition.
    """

    key_encoder: Callable[[Any], Any] | None = None
    value_encoder: Callable[[Any], Any] | None = None
    partitioner: Callable[[str, bytes | None, int], Any] | None = None

    @property
    def none_given(self) -> bool:
        """True if there are neither encoders nor a partitioner."""
        return self.key_encoder is None and self.value_encoder is None and self.partitioner is None


NO_FUNCTIONS = UserFunctions()


def encoded_bytes(name: str, given: Any, data: Any) -> bytes | None:
    """Return *data*, the result of an encoder, as bytes or None. *given* is the object that was encoded.
    *name* is "key" or "value".

    Raises ConfigurationError if *data* is neither None nor a buffer of bytes.
    """
    if data is None or data.__class__ is bytes:
        result: bytes | None = data
        return result
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    raise ConfigurationError(
        f"{name}_encoder returned {type(data).__name__} for a {type(given).__name__}; "
        "it must return bytes or None"
    )


def checked_partition(topic: str, number: Any, count: int) -> int:
    """Return *number* as an int. The partitioner has chosen this number for a record of *topic*.

    Raises ConfigurationError if *number* is not a whole number from 0 to *count* - 1.
    """
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < count:
        raise ConfigurationError(
            f"the partitioner chose {number!r} for topic {topic!r}, which has {counted(count, 'partition')}: "
            f"it must return a whole number from 0 to {count - 1}"
        )
    return int(number)
