"""What a handler gets beside the request, and what it may give back beside a response."""

from collections.abc import Mapping
from typing import NamedTuple

from pyklient.broker.log.segment import FileSlice
from pyklient.protocol.schema import ApiMessage

__all__ = ["Call", "Reply"]


class Call(NamedTuple):
    """Who asks, and in which version."""

    version: int
    client_id: str
    client_host: str


class Reply(NamedTuple):
    """A response whose record bytes stay in their files: ``files`` tells by the id of a stand-in buffer
    (a part of the encoded response) which bytes to send in its place.
    """

    message: ApiMessage
    files: Mapping[int, FileSlice]
