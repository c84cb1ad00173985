"""Bytes in a log that no broker would take from a client."""

from pathlib import Path

from pyklient.broker import Broker

__all__ = ["plant"]


def plant(directory: Path, topic: str, batch: bytes) -> None:
    """Make *directory* the data of a broker where partition 0 of *topic* holds *batch*, and nothing else.

    Its checksum must hold, and it must be numbered from 0.
    """
    with Broker(data_dir=directory) as broker:
        broker.create_topic(topic)
    (directory / f"{topic}-0" / f"{0:020}.log").write_bytes(batch)
