"""Asks one broker for the metadata of the cluster. The request does not make any broker create topics, unless
the caller allows it."""

import time
from collections.abc import Collection
from typing import Final

from pyklient.error_codes import ErrorCode
from pyklient.errors import broker_error
from pyklient.net.connection.connection import Connection
from pyklient.protocol.messages import MetadataRequest, MetadataResponse

__all__ = ["ask_metadata"]

_FIRST_WITH_AUTO_CREATE: Final = 4
"""The first version of the Metadata request that tells the broker whether it may create the topics that the
request names."""


def ask_metadata(
    connection: Connection,
    topics: Collection[str] | None,
    deadline: float,
    *,
    allow_auto_create: bool = False,
) -> MetadataResponse:
    """Ask the broker at the other end of *connection* for the metadata of *topics*, or of all topics if
    *topics* is None. Return the broker's response.

    If *allow_auto_create* is true, the broker may create topics that do not exist. Raises KafkaTimeoutError
    when ``time.monotonic()`` reaches *deadline*, and BrokerError if the broker answers with an error for the
    whole request. The errors of topics are in the response.
    """
    version = connection.version_of(MetadataRequest)
    can_choose = version >= _FIRST_WITH_AUTO_CREATE
    # Brokers before 0.11 create each topic that is named, if they are configured to create topics.
    asked = topics if can_choose or allow_auto_create or not topics else None
    listed = None if asked is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in asked]
    request = MetadataRequest(
        topics=[] if listed is None and version == 0 else listed,
        allow_auto_topic_creation=allow_auto_create or not can_choose,
    )
    response: MetadataResponse = connection.ask(request, max(deadline - time.monotonic(), 0.001))
    if response.error_code:
        raise broker_error(response.error_code, f"cannot get metadata from {connection.endpoint}")
    if topics is not None and not can_choose:
        _keep_only(frozenset(topics), response)
    return response


def _keep_only(topics: frozenset[str], response: MetadataResponse) -> None:
    """Remove all topics except *topics* from *response*. Add an UNKNOWN_TOPIC_OR_PARTITION error for each of
    *topics* that *response* lacks."""
    response.topics = [topic for topic in response.topics if topic.name in topics]
    response.topics += [
        MetadataResponse.MetadataResponseTopic(name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        for name in topics.difference(topic.name or "" for topic in response.topics)
    ]
