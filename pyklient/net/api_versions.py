"""Which version of each request a broker and this client have in common."""

from collections.abc import Mapping
from typing import Final

from pyklient.errors import UnsupportedVersionError
from pyklient.protocol.messages import ApiVersionsRequest, LeaveGroupRequest
from pyklient.protocol.schema import ApiMessage

__all__ = ["AgreedVersions", "request_name"]

_API_VERSIONS_OF_2_4: Final = 3
"""The version of ApiVersions that came with Kafka 2.4, as the first flexible versions did (KIP-482)."""

_NEW_IN_2_4: Final[Mapping[type[ApiMessage], int]] = {LeaveGroupRequest: 3}
"""The first version of Kafka 2.4, of requests whose first flexible version is a later one (KIP-345)."""


def request_name(request_class: type[ApiMessage]) -> str:
    """What people call a request."""
    return request_class.__name__.removesuffix("Request")


class AgreedVersions:
    """*theirs* are the first and last version that *peer* knows, by API key. Finds each answer once.

    A peer that knows no ApiVersions of Kafka 2.4 is asked nothing in versions that came with that release,
    whatever it says. No release of Kafka says so; librdkafka's mock cluster does, and reads the newer forms
    of JoinGroup and LeaveGroup as if they were the older ones.
    """

    def __init__(self, peer: object, theirs: Mapping[int, tuple[int, int]]) -> None:
        self._peer = peer
        self._theirs = theirs
        api_versions = theirs.get(ApiVersionsRequest.api_key)
        self._is_older = api_versions is not None and api_versions[1] < _API_VERSIONS_OF_2_4
        self._agreed: dict[tuple[type[ApiMessage], int | None], int] = {}

    @property
    def known(self) -> bool:
        """Whether the peer has said anything yet."""
        return bool(self._theirs)

    def of(self, request_class: type[ApiMessage], max_version: int | None) -> int:
        """The newest version of a request that both sides know, and no newer than *max_version*.
        Raises UnsupportedVersionError when there is none."""
        agreed = self._agreed.get((request_class, max_version))
        if agreed is None:
            agreed = self._agreed[request_class, max_version] = self._agree(request_class, max_version)
        return agreed

    def _agree(self, request_class: type[ApiMessage], max_version: int | None) -> int:
        ours = request_class.versions
        theirs = self._theirs.get(request_class.api_key)
        if theirs is not None:
            version = min(theirs[1], ours[1])
            if max_version is not None:
                version = min(version, max_version)
            oldest = max(theirs[0], ours[0])
            newer = _NEW_IN_2_4.get(request_class, request_class.flexible)
            if self._is_older and newer is not None and oldest < newer:
                version = min(version, newer - 1)
            if version >= oldest:
                return version
        takes = "does not know it" if theirs is None else f"takes versions {theirs[0]} to {theirs[1]}"
        limit = "" if max_version is None else f", here at most {max_version}"
        raise UnsupportedVersionError(
            f"{request_name(request_class)}: {self._peer} {takes}; "
            f"this client has versions {ours[0]} to {ours[1]}{limit}"
        )
