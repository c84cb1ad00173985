"""Which version of each request a broker and this client have in common."""

from collections.abc import Mapping

from pyklient.errors import UnsupportedVersionError
from pyklient.protocol.schema import ApiMessage

__all__ = ["AgreedVersions", "request_name"]


def request_name(request_class: type[ApiMessage]) -> str:
    """What people call a request."""
    return request_class.__name__.removesuffix("Request")


class AgreedVersions:
    """*theirs* are the first and last version that *peer* knows, by API key. Finds each answer once."""

    def __init__(self, peer: object, theirs: Mapping[int, tuple[int, int]]) -> None:
        self._peer = peer
        self._theirs = theirs
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
            if version >= max(theirs[0], ours[0]):
                return version
        takes = "does not know it" if theirs is None else f"takes versions {theirs[0]} to {theirs[1]}"
        limit = "" if max_version is None else f", here at most {max_version}"
        raise UnsupportedVersionError(
            f"{request_name(request_class)}: {self._peer} {takes}; "
            f"this client has versions {ours[0]} to {ours[1]}{limit}"
        )
