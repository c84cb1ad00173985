"""Chooses the version of each request: the newest version that the broker and this client both support."""

from collections.abc import Mapping
from typing import Final

from pyklient.errors import UnsupportedVersionError
from pyklient.protocol.messages import ApiVersionsRequest
from pyklient.protocol.schema import ApiMessage
from pyklient.version import VERSION

__all__ = ["AgreedVersions", "api_versions_request", "needed_release", "request_name"]

_SOFTWARE_NAME: Final = "pyklient"
_SOFTWARE_VERSION: Final = VERSION.replace("+", "-")  # brokers refuse a plus (KIP-511)

_FIRST_RELEASE: Final = {
    "JoinGroup": "0.9",
    "Heartbeat": "0.9",
    "LeaveGroup": "0.9",
    "SyncGroup": "0.9",
    "DescribeGroups": "0.9",
    "ListGroups": "0.9",
    "SaslHandshake": "0.10",
    "CreateTopics": "0.10.1",
    "DeleteTopics": "0.10.1",
    "InitProducerId": "0.11",
    "AddPartitionsToTxn": "0.11",
    "AddOffsetsToTxn": "0.11",
    "EndTxn": "0.11",
    "TxnOffsetCommit": "0.11",
    "OffsetForLeaderEpoch": "0.11",
    "DescribeConfigs": "0.11",
    "SaslAuthenticate": "1.0",
    "WriteTxnMarkers": "0.11",
    "CreatePartitions": "1.0",
    "DeleteGroups": "1.1",
    "DescribeCluster": "2.8",
    "DescribeProducers": "2.8",
    "ListTransactions": "3.0",
    "DescribeTransactions": "3.0",
}
"""The requests that Kafka 0.8.2 lacks, each with the first release of Kafka that has it."""

_FIRST_RELEASE_OF_VERSION: Final = {
    ("OffsetCommit", 2): "0.9",
    ("FindCoordinator", 1): "0.11",
    ("InitProducerId", 3): "2.5",
    ("TxnOffsetCommit", 3): "2.5",
    ("ListOffsets", 1): "0.10.1",
    ("JoinGroup", 5): "2.3",
    ("ListTransactions", 1): "3.8",
}
"""The versions of requests that this client cannot do without, each with the first release of Kafka that has
it."""

_WITHOUT: Final = {
    "JoinGroup": "for a group on older brokers, set coordination='zookeeper' and zookeeper='host:port'",
    "ListGroups": "groups on older brokers are found with zookeeper='host:port/chroot'",
    "CreateTopics": "create topics on older brokers with Kafka's tool kafka-topics.sh --zookeeper",
    "DeleteTopics": "delete topics on older brokers with Kafka's tool kafka-topics.sh --zookeeper",
}
"""The advice at the end of the error message for a request that a broker lacks. The keys are names of
requests."""

_API_VERSIONS_OF_2_4: Final = 3
"""The newest version of ApiVersions in Kafka 2.4, the first release with flexible versions (KIP-482)."""

_NEW_IN_2_4: Final = {"LeaveGroup": 3}
"""The requests that got two new versions in Kafka 2.4, of which only the second has the flexible format
(KIP-482). Each has the number of the first of the two versions."""


def api_versions_request() -> ApiVersionsRequest:
    """Return the request that asks a broker for its versions and features. It names this client's software
    (KIP-511)."""
    return ApiVersionsRequest(client_software_name=_SOFTWARE_NAME, client_software_version=_SOFTWARE_VERSION)


def request_name(request_class: type[ApiMessage]) -> str:
    """Return the name of a request as Kafka writes it, such as ``Produce``."""
    return request_class.__name__.removesuffix("Request")


def needed_release(request_class: type[ApiMessage], version: int | None = None) -> str:
    """Return the last clause of an error message: it names the first release of Kafka that has a request.

    If *version* is given, the clause names the first release that has this version of the request. The clause
    is empty if every supported release has the request, or the version.
    """
    name = request_name(request_class)
    release = _FIRST_RELEASE.get(name)
    if version is not None:
        release = _FIRST_RELEASE_OF_VERSION.get((name, version), release)
    return "" if release is None else f", which needs Kafka {release} or later"


class AgreedVersions:
    """The versions of requests to use with the broker *peer*. *theirs* has the first and the last version
    that the broker supports, by API key.

    Some peers claim to support requests of Kafka 2.4, but not the ApiVersions request of that release. No
    Kafka broker does this, but librdkafka's mock cluster does, and it misreads the newer versions of
    JoinGroup and LeaveGroup. Such a peer gets only versions that are older than Kafka 2.4.
    """

    def __init__(self, peer: object, theirs: Mapping[int, tuple[int, int]]) -> None:
        self._peer = peer
        self._theirs = theirs
        api_versions = theirs.get(ApiVersionsRequest.api_key)
        self._is_older = api_versions is not None and api_versions[1] < _API_VERSIONS_OF_2_4
        self._agreed: dict[tuple[type[ApiMessage], int | None], int] = {}

    @property
    def known(self) -> bool:
        """True once the broker has named the versions that it supports."""
        return bool(self._theirs)

    def of(
        self, request_class: type[ApiMessage], max_version: int | None = None, min_version: int = 0
    ) -> int:
        """Return the newest version of a request that both the broker and this client support, within
        *min_version* to *max_version*. Raises UnsupportedVersionError if there is no such version."""
        agreed = self._agreed.get((request_class, max_version))
        if agreed is None:
            agreed = self._agreed[request_class, max_version] = self._agree(request_class, max_version)
        if agreed < min_version:
            raise UnsupportedVersionError(
                f"{self._peer} does not support version {min_version} or later of "
                f"{request_name(request_class)}{needed_release(request_class, min_version)}"
            )
        return agreed

    def _agree(self, request_class: type[ApiMessage], max_version: int | None) -> int:
        ours = request_class.versions
        theirs = self._theirs.get(request_class.api_key)
        if theirs is not None:
            version = min(theirs[1], ours[1])
            if max_version is not None:
                version = min(version, max_version)
            oldest = max(theirs[0], ours[0])
            newer = _NEW_IN_2_4.get(request_name(request_class), request_class.flexible)
            if self._is_older and newer is not None and oldest < newer:
                version = min(version, newer - 1)
            if version >= oldest:
                return version
        name = request_name(request_class)
        if theirs is None and (since := needed_release(request_class)):
            instead = f"; {_WITHOUT[name]}" if name in _WITHOUT else ""
            raise UnsupportedVersionError(f"{self._peer} supports no version of {name}{since}{instead}")
        supported = "no version" if theirs is None else f"versions {theirs[0]} to {theirs[1]}"
        limit = "" if max_version is None else f", and uses at most {max_version} here"
        raise UnsupportedVersionError(
            f"{self._peer} supports {supported} of {name}; "
            f"this client supports versions {ours[0]} to {ours[1]}{limit}"
        )
