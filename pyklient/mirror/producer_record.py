"""ProducerRecord, which the handler of a mirror returns for each record to send."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from pyklient.kernel import Message

__all__ = ["Handler", "ProducerRecord"]


class ProducerRecord(NamedTuple):
    """A record that a mirror sends to the target cluster.

    The fields are those of ``Producer.send``. If ``partition`` is None, the key decides, as in
    ``Producer.send``.
    """

    topic: str
    value: bytes | None
    key: bytes | None = None
    partition: int | None = None
    timestamp_ms: int | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()


Handler: TypeAlias = Callable[[Message], Iterable[ProducerRecord]]
"""A function that returns the records to send for one message of a source cluster. It may return none."""
