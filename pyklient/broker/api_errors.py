"""The two ways in which the broker fails a request: an error response, or the end of the connection."""

from pyklient.error_codes import ErrorCode

__all__ = ["ApiError", "CloseConnection"]


class ApiError(Exception):
    """An error code that a request, or one item of it, is answered with.

    The *message* is sent along if the response has a field for it.
    """

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class CloseConnection(Exception):
    """The connection is closed without a response. The text tells the log why."""
