"""The requirements that the options of a producer set for brokers, and the errors for brokers that are too
old."""

from typing import Final

from pyklient.errors import UnsupportedCodecError, UnsupportedVersionError
from pyklient.net.connection.connection import Connection
from pyklient.protocol.messages import InitProducerIdRequest, ProduceRequest
from pyklient.protocol.records import Compression

__all__ = ["MAX_PRODUCE_VERSION", "BrokerRequirements", "check_codec"]

MAX_PRODUCE_VERSION: Final = 12
"""The newest version of Produce that identifies topics by name; later versions use ids."""

_FIRST_WITH_ZSTD: Final = 7
"""The first version of Produce that brokers accept with zstd (KIP-110)."""


class BrokerRequirements:
    """The requirements of a producer that compresses with *codec*. If *idempotence* is true, brokers must
    support producer ids, because the producer must not send without them."""

    def __init__(self, codec: Compression, *, idempotence: bool) -> None:
        self._codec = codec
        self._idempotence = idempotence

    def check(self, connection: Connection) -> int:
        """Return the version of Produce to use with the broker of *connection*.

        Raises UnsupportedVersionError or UnsupportedCodecError if the broker is too old.
        """
        version = connection.version_of(ProduceRequest, MAX_PRODUCE_VERSION)
        check_codec(self._codec, version, connection.endpoint.node_id)
        if self._idempotence:
            try:
                connection.version_of(InitProducerIdRequest)
            except UnsupportedVersionError as error:
                raise UnsupportedVersionError(
                    f"enable_idempotence=True is not possible: {error}; remove the option to send to such "
                    "brokers without idempotence"
                ) from error
        return version


def check_codec(codec: Compression, produce_version: int, node_id: int) -> None:
    """Raise UnsupportedCodecError if *codec* is too new for a broker to which this version of Produce is
    sent."""
    if codec is Compression.ZSTD and produce_version < _FIRST_WITH_ZSTD:
        raise UnsupportedCodecError(
            f"broker {node_id} does not know zstd, which needs Kafka 2.1 or later: set another "
            "compression_type"
        )
