"""The versions of the Produce request: the newest that clients use, and the record format of each."""

from typing import Final

from pyklient.errors import UnsupportedCodecError
from pyklient.protocol.records import Compression

__all__ = ["MAX_PRODUCE_VERSION", "check_codec", "format_for"]

MAX_PRODUCE_VERSION: Final = 12
"""The newest version of Produce that identifies topics by name; later versions use ids."""

_FIRST_WITH_ZSTD: Final = 7
"""The first version of Produce whose batches may be compressed with zstd (KIP-110)."""


def format_for(produce_version: int) -> int:
    """Return the record format (magic) that belongs to this version of the Produce request."""
    if produce_version >= 3:
        return 2
    return 1 if produce_version == 2 else 0


def check_codec(codec: Compression, produce_version: int, node_id: int) -> None:
    """Raise UnsupportedCodecError if the broker *node_id*, to which this version of Produce is sent, is too
    old for *codec*."""
    if codec is Compression.ZSTD and produce_version < _FIRST_WITH_ZSTD:
        raise UnsupportedCodecError(
            f"broker {node_id} does not know zstd, which needs Kafka 2.1 or later: set another "
            "compression_type"
        )
