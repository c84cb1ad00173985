"""The context of a request, which is passed to each handler, and a kind of response that includes slices of
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
    """A response that contains records from segment files, which are sent without being read into memory.

    In ``message``, a buffer of the same length stands for each slice of a file. ``files`` maps the ``id()``
    of such a buffer to the slice that is sent instead.
    """

    message: ApiMessage
    files: Mapping[int, FileSlice]
