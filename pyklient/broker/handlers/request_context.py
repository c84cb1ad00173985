"""The context of a request, and a response whose records stay in segment files until they are sent."""

from collections.abc import Mapping
from typing import NamedTuple

from pyklient.broker.log.segment import FileSlice
from pyklient.protocol.schema import ApiMessage

__all__ = ["RequestContext", "ResponseWithFiles"]


class RequestContext(NamedTuple):
    """The version of a request, and the client that sent it."""

    version: int
    client_id: str
    client_host: str


class ResponseWithFiles(NamedTuple):
    """A response in which some buffers only stand for bytes of segment files.

    ``files`` has the slice to send instead of such a buffer, by the buffer's ``id()``.
    """

    message: ApiMessage
    files: Mapping[int, FileSlice]
