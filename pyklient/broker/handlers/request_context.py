"""The context of a request, which each handler gets, and a response with slices of files, which a handler may
return instead of a message."""

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
    """A response whose bytes come in part from segment files. In its message, a buffer takes the place of
    each slice of a file.

    ``files`` has the slices that are sent instead of these buffers, each by the ``id()`` of its buffer.
    """

    message: ApiMessage
    files: Mapping[int, FileSlice]
