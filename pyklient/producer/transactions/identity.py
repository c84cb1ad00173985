"""Identity, by which brokers recognize the batches of one producer."""

from typing import NamedTuple

__all__ = ["Identity"]


class Identity(NamedTuple):
    """A producer id and its epoch, as a broker has given them."""

    producer_id: int
    epoch: int
