"""Puts bytes into a log that no broker would accept from a client."""

from pathlib import Path

from pyklient.broker import Broker

__all__ = ["plant"]


def plant(directory: Path, topic: str, batch: bytes) -> None:
    """Write the data directory of a broker in which partition 0 of *topic* holds *batch*, and nothing else.

    The checksum of *batch* must be right, and its offsets must begin at 0.
    """
    with Broker(data_dir=directory) as broker:
        broker.create_topic(topic)
    (directory / f"{topic}-0" / f"{0:020}.log").write_bytes(batch)
