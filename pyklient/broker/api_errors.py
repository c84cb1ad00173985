"""The two ways in which the broker fails a request: with an error response, or by closing the connection."""

from pyklient.error_codes import ErrorCode

__all__ = ["ApiError", "CloseConnection"]


class ApiError(Exception):
    """An error that the broker sends in the response to a request, for the whole request or for one item in
    it.

    The *code* is sent always, the *message* only if the response has a field for it.
    """

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class CloseConnection(Exception):
    """The broker must close the connection without a response. The text of the exception is the reason, for
    the log."""
