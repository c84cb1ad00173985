"""Checks if a broker is new enough for the options of a producer."""

import logging
from typing import Final

from pyklient.errors import UnsupportedVersionError
from pyklient.net.connection.connection import Connection
from pyklient.net.produce_versions import MAX_PRODUCE_VERSION, check_codec
from pyklient.protocol.messages import InitProducerIdRequest, ProduceRequest
from pyklient.protocol.records import Compression

__all__ = ["BrokerRequirements"]

log = logging.getLogger("pyklient.producer")

_FIRST_WITH_TIMESTAMPS: Final = 2
_FIRST_WITH_HEADERS: Final = 3


class BrokerRequirements:
    """Checks if brokers are new enough for a producer that compresses with *codec*.

    If *idempotence* is true, brokers must support producer ids, because the user has asked for idempotence.
    """

    def __init__(self, codec: Compression, *, idempotence: bool) -> None:
        self._codec = codec
        self._idempotence = idempotence
        self._produce_version: int | None = None

    def check(self, connection: Connection) -> None:
        """Raise UnsupportedVersionError or UnsupportedCodecError if the broker of *connection* is too old.

        Log a warning if the first broker that is checked stores no timestamps.
        """
        version = connection.version_of(ProduceRequest, MAX_PRODUCE_VERSION)
        node_id = connection.endpoint.node_id
        check_codec(self._codec, version, node_id)
        if self._idempotence:
            try:
                connection.version_of(InitProducerIdRequest)
            except UnsupportedVersionError as error:
                raise UnsupportedVersionError(
                    f"enable_idempotence=True is not possible: {error}; if you want to send without "
                    "idempotence, remove the option"
                ) from error
        if self._produce_version is None and version < _FIRST_WITH_TIMESTAMPS:
            log.warning("broker %d is older than Kafka 0.10 and stores no timestamps of records", node_id)
        self._produce_version = version

    def check_headers(self) -> None:
        """Raise UnsupportedVersionError if the broker that was checked last is too old for record headers."""
        if self._produce_version is not None and self._produce_version < _FIRST_WITH_HEADERS:
            raise UnsupportedVersionError(
                "the brokers are too old for record headers: use Kafka 0.11 or later, or send no headers"
            )
