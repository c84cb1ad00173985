"""What a handler gets and returns besides messages: the context of a request, and a response with slices of
files."""

from collections.abc import Mapping
from typing import NamedTuple

from pyklient.broker.log.segment import FileSlice
from pyklient.protocol.schema import ApiMessage

__all__ = ["RequestContext", "ResponseWithFiles"]


class RequestContext(NamedTuple):
    """The version of a request, and the id and host of the client that sent it."""

    version: int
    client_id: str
    client_host: str


class ResponseWithFiles(NamedTuple):
    """A response to a client, some of whose buffers only stand for bytes of segment files.

    ``files`` has the slice that is sent instead of such a buffer, by the ``id()`` of the buffer.
    """

    message: ApiMessage
    files: Mapping[int, FileSlice]
