"""The two ways in which the broker fails a request: an error response, or closing the connection."""

from pyklient.error_codes import ErrorCode

__all__ = ["ApiError", "CloseConnection"]


class ApiError(Exception):
    """An error code with which a request, or one item of it, is answered.

    The *message* is sent too if the response has a field for it.
    """

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class CloseConnection(Exception):
    """The connection must be closed without a response. The text is the reason, for the log."""
