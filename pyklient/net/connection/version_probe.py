"""Finds out which versions of requests a broker before Kafka 0.10 supports.

Such a broker does not know the request ApiVersions. If it gets this request, Kafka 0.8 closes the connection.
Kafka 0.9 neither answers the request nor closes the connection, and it answers the next request. The requests
that a broker answers therefore tell its release:

====================================  ===========  ==========  ===========================
request                               Kafka 0.8.2  Kafka 0.9   Kafka 0.10 and later
====================================  ===========  ==========  ===========================
ApiVersions                           closes       no answer   answers
ListOffsets, version 0                answers      answers     answers until 3.9
ListGroups, version 0                 closes       answers     answers
====================================  ===========  ==========  ===========================

None of these requests changes anything at the broker.
"""

import logging
from collections.abc import Callable
from types import MappingProxyType
from typing import Final

from pyklient.errors import BrokerConnectionError
from pyklient.net.connection.frames import FrameReader
from pyklient.net.connection.old_brokers import Versions
from pyklient.net.connection.transport import Deadline, Endpoint, Transport
from pyklient.protocol.framing import ClientFraming, MissingAnswerError
from pyklient.protocol.messages import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeGroupsRequest,
    FetchRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListGroupsRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    ProduceRequest,
    SyncGroupRequest,
)
from pyklient.protocol.schema import ApiMessage

__all__ = ["KAFKA_0_8_2", "KAFKA_0_9", "probe_versions"]

log = logging.getLogger("pyklient.net")

_LARGEST_ANSWER: Final = 16 << 20
"""The largest response that is accepted, in bytes. A response to ListGroups names all groups, which may be
many."""

KAFKA_0_8_2: Final[Versions] = MappingProxyType(
    {
        ProduceRequest.api_key: (0, 0),
        FetchRequest.api_key: (0, 0),
        ListOffsetsRequest.api_key: (0, 0),
        MetadataRequest.api_key: (0, 0),
        OffsetCommitRequest.api_key: (0, 1),
        OffsetFetchRequest.api_key: (0, 1),
        FindCoordinatorRequest.api_key: (0, 0),
    }
)
"""The versions of the requests that Kafka 0.8.2 supports. There, the request FindCoordinator has the name
ConsumerMetadata."""

KAFKA_0_9: Final[Versions] = MappingProxyType(
    {
        **KAFKA_0_8_2,
        ProduceRequest.api_key: (0, 1),
        FetchRequest.api_key: (0, 1),
        OffsetCommitRequest.api_key: (0, 2),
        JoinGroupRequest.api_key: (0, 0),
        HeartbeatRequest.api_key: (0, 0),
        LeaveGroupRequest.api_key: (0, 0),
        SyncGroupRequest.api_key: (0, 0),
        DescribeGroupsRequest.api_key: (0, 0),
        ListGroupsRequest.api_key: (0, 0),
    }
)
"""The versions of the requests that Kafka 0.9 supports."""


def probe_versions(
    connected: Callable[[], Transport], endpoint: Endpoint, client_id: str, deadline: Deadline
) -> Versions | None:
    """Find out the versions of the broker at *endpoint*, which has not answered ApiVersions, and return them.

    Return None if the broker closes the connection instead of answering requests that every broker before
    Kafka 4.0 answers. Each call of *connected* returns a new connection. Raises KafkaTimeoutError if the
    broker answers nothing in time, and the errors of *connected*.
    """
    probe = _Probe(connected(), endpoint, client_id, deadline)
    try:
        answer = probe.first_answer(ApiVersionsRequest(), ListGroupsRequest())
    except MissingAnswerError:
        log.info("%s runs Kafka 0.9: it answers ListGroups, and not ApiVersions", endpoint)
        return KAFKA_0_9
    finally:
        probe.close()
    if answer is None:
        return _if_0_8(connected, endpoint, client_id, deadline)
    assert isinstance(answer, ApiVersionsResponse)
    if answer.error_code:
        return None
    return {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}


def _if_0_8(
    connected: Callable[[], Transport], endpoint: Endpoint, client_id: str, deadline: Deadline
) -> Versions | None:
    """Return the versions of Kafka 0.8.2 if the broker has that release; otherwise None.

    If a broker closes the connection after ApiVersions, this does not prove its release: the port may belong
    to another kind of server or use TLS, or the broker may be stopping.
    """
    probe = _Probe(connected(), endpoint, client_id, deadline)
    try:
        is_broker = probe.first_answer(ListOffsetsRequest(replica_id=-1)) is not None
        if is_broker and probe.first_answer(ListGroupsRequest()) is None:
            log.info("%s runs Kafka 0.8: it answers neither ApiVersions nor ListGroups", endpoint)
            return KAFKA_0_8_2
    finally:
        probe.close()
    return None


class _Probe:
    """A connection on which requests are sent in version 0, to see if the broker answers them."""

    def __init__(self, transport: Transport, endpoint: Endpoint, client_id: str, deadline: Deadline) -> None:
        self._transport = transport
        self._deadline = deadline
        self._frames = FrameReader(endpoint, transport, _LARGEST_ANSWER)
        self._framing = ClientFraming(client_id)

    def first_answer(self, *requests: ApiMessage) -> ApiMessage | None:
        """Send *requests*, and return the response to the first of them. Return None if the connection is
        closed before that response arrives.

        Raises MissingAnswerError if the response to a later request arrives instead.
        """
        parts = [part for request in requests for part in self._framing.send(request, 0)]
        try:
            self._transport.send(parts, self._deadline)
            return self._framing.receive(self._frames.receive(self._deadline))[1]
        except MissingAnswerError:
            raise
        except BrokerConnectionError:
            return None

    def close(self) -> None:
        """Close the connection of the probe."""
        self._transport.close()
